package controlplane

import (
	"slices"
	"strings"
	"testing"
)

func TestMergeArgs(t *testing.T) {
	defaults := map[string]string{"profiling": "false", "bind-address": "127.0.0.1"}
	for _, test := range []struct {
		what        string
		extra, want []string
	}{
		{"defaults", nil, []string{"--bind-address=127.0.0.1", "--profiling=false"}},
		{"added", []string{"audit-log-path=/x"}, []string{"--bind-address=127.0.0.1", "--profiling=false", "--audit-log-path=/x"}},
		{"replaced", []string{"profiling=true"}, []string{"--bind-address=127.0.0.1", "--profiling=true"}},
		{"replaced, with dashes", []string{"--profiling=true"}, []string{"--bind-address=127.0.0.1", "--profiling=true"}},
		{"repeated", []string{"v=a", "v=b"}, []string{"--bind-address=127.0.0.1", "--profiling=false", "--v=a", "--v=b"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			if got := mergeArgs(defaults, test.extra); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestSocketPathTooDeep(t *testing.T) {
	if _, err := socketPath("/short"); err != nil {
		t.Error(err)
	}
	_, err := socketPath("/" + strings.Repeat("deep/", 30))
	if err == nil || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("got %v", err)
	}
}
