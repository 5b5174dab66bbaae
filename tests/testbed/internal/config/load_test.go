package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// noEnv is an environment without variables.
func noEnv(string) string { return "" }

// writeTree lays files out below a fresh folder and returns the main file's path.
func writeTree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "config.yaml")
}

func TestNamesMergeAsInK3s(t *testing.T) {
	for _, test := range []struct {
		what  string
		files map[string]string
		args  []string
		want  []string
	}{
		{"a list", map[string]string{"config.yaml": "tls-san: [a, b]\n"}, nil, []string{"a", "b"}},
		{"a scalar is a list of one", map[string]string{"config.yaml": "tls-san: a\n"}, nil, []string{"a"}},
		{"a comma list in a scalar", map[string]string{"config.yaml": "tls-san: a,b\n"}, nil, []string{"a", "b"}},
		{"comma lists in a list", map[string]string{"config.yaml": "tls-san: [\"a,b\", c]\n"}, nil, []string{"a", "b", "c"}},
		{"an empty list", map[string]string{"config.yaml": "tls-san: []\n"}, nil, nil},
		{"an empty file", map[string]string{"config.yaml": ""}, nil, nil},
		{"only comments", map[string]string{"config.yaml": "# nothing\n"}, nil, nil},
		{"a later drop-in replaces", map[string]string{
			"config.yaml":          "tls-san: [a]\n",
			"config.yaml.d/1.yaml": "tls-san: [b]\n",
		}, nil, []string{"b"}},
		{"a plus appends", map[string]string{
			"config.yaml":          "tls-san: [a]\n",
			"config.yaml.d/1.yaml": "tls-san+: [b]\n",
		}, nil, []string{"a", "b"}},
		{"a plus appends to a scalar", map[string]string{
			"config.yaml":          "tls-san: a\n",
			"config.yaml.d/1.yaml": "tls-san+: b\n",
		}, nil, []string{"a", "b"}},
		{"a plus with nothing before", map[string]string{"config.yaml": "tls-san+: [a]\n"}, nil, []string{"a"}},
		{"a later plain key shadows what was appended", map[string]string{
			"config.yaml":           "tls-san: [a]\n",
			"config.yaml.d/10.yaml": "tls-san+: [b]\n",
			"config.yaml.d/20.yaml": "tls-san: [c]\n",
		}, nil, []string{"c"}},
		{"drop-ins go by name, not by number", map[string]string{
			"config.yaml.d/9.yaml":  "tls-san: [nine]\n",
			"config.yaml.d/10.yaml": "tls-san: [ten]\n",
		}, nil, []string{"nine"}},
		{"drop-ins count without a main file", map[string]string{
			"config.yaml":          "",
			"config.yaml.d/1.yaml": "tls-san: [a]\n",
		}, nil, []string{"a"}},
		{"other endings are not drop-ins", map[string]string{
			"config.yaml":              "tls-san: [a]\n",
			"config.yaml.d/1.yaml.bak": "tls-san: [b]\n",
		}, nil, []string{"a"}},
		{"the command line replaces the whole list", map[string]string{
			"config.yaml":          "tls-san: [a]\n",
			"config.yaml.d/1.yaml": "tls-san+: [b]\n",
		}, []string{"--tls-san", "x", "--tls-san=y,z"}, []string{"x", "y", "z"}},
		{"a space stays part of the name", map[string]string{"config.yaml": "tls-san: \"a, b\"\n"}, nil, []string{"a", " b"}},
		{"other addresses follow", map[string]string{"config.yaml": "tls-san: a\nnode-ip: 10.0.0.9\nadvertise-address: 10.0.0.8\n"}, nil, []string{"a", "10.0.0.9", "10.0.0.8"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			path := writeTree(t, test.files)
			if _, err := os.Stat(path); err != nil {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := Load(append([]string{"--config", path}, test.args...), noEnv)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.TLSSANs, test.want) {
				t.Errorf("got %q, want %q", got.TLSSANs, test.want)
			}
		})
	}
}

func TestScalars(t *testing.T) {
	path := writeTree(t, map[string]string{
		"config.yaml":          "https-listen-port: 7000\nwrite-kubeconfig-mode: \"0640\"\nnode-name: from-file\ntls-san-security: no\ndisable-agent:\n",
		"config.yaml.d/1.yaml": "https-listen-port: [7001, 7002]\n",
	})
	got, err := Load([]string{"-c", path, "--node-name=from-line", "--kube-apiserver-arg=a=1,2", "--kube-apiserver-arg", "b=3", "--disable=traefik"}, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	if got.Port != 7002 {
		t.Errorf("a list for a scalar ends in its last item: got %d", got.Port)
	}
	if got.NodeName != "from-line" || got.KubeconfigMode != 0o640 || got.TLSSANSecurity {
		t.Errorf("got %q %o %v", got.NodeName, got.KubeconfigMode, got.TLSSANSecurity)
	}
	if want := []string{"a=1,2", "b=3"}; !slices.Equal(got.APIServerArgs, want) {
		t.Errorf("component arguments are not split: got %q", got.APIServerArgs)
	}
	if got.ServiceIP.String() != "10.43.0.1" {
		t.Errorf("service address %s", got.ServiceIP)
	}
	for _, name := range []string{"disable-agent", "--disable"} {
		if !slices.ContainsFunc(got.Ignored, func(line string) bool { return strings.Contains(line, name) }) {
			t.Errorf("%s is not reported as without effect: %q", name, got.Ignored)
		}
	}
}

func TestEnvironment(t *testing.T) {
	path := writeTree(t, map[string]string{"config.yaml": "tls-san: [a]\n"})
	env := func(name string) string {
		return map[string]string{"K3S_CONFIG_FILE": path, "K3S_KUBECONFIG_MODE": "640"}[name]
	}
	got, err := Load([]string{"--config=/nonexistent/other.yaml"}, env)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.TLSSANs, []string{"a"}) || got.KubeconfigMode != 0o640 {
		t.Errorf("got %q %o", got.TLSSANs, got.KubeconfigMode)
	}
}

func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		what, yaml string
		args       []string
		want       []string // all must be in the message
	}{
		{"unknown flag", "", []string{"--no-such-flag=1"}, []string{"--no-such-flag"}},
		{"stray argument", "", []string{"agent"}, []string{`"agent"`}},
		{"flag without its value", "", []string{"--node-name"}, []string{"--node-name"}},
		{"unknown key", "tls-san: a\nno-such-key: 1\n", nil, []string{"config.yaml:2:1", `"no-such-key"`}},
		{"unknown key with plus", "tls-sans+: a\n", nil, []string{"config.yaml:1:1", `"tls-sans+"`}},
		{"broken YAML", "tls-san: [a\nnode-name: b\n", nil, []string{"config.yaml:", "not valid YAML"}},
		{"tab for indentation", "tls-san:\n\t- a\n", nil, []string{"config.yaml:2:1", "not valid YAML"}},
		{"a bare list", "- a\n- b\n", nil, []string{"config.yaml:1:", "keys and values"}},
		{"a bare word", "hello\n", nil, []string{"config.yaml:1:1", "keys and values"}},
		{"a mapping for a list", "tls-san:\n  name: a\n", nil, []string{"config.yaml:2:", "flat list"}},
		{"an empty value", "tls-san:\n", nil, []string{"config.yaml:1:", "empty"}},
		{"a port that is none", "https-listen-port: https\n", nil, []string{"config.yaml:1:1", `"https"`, "not a port"}},
		{"a port out of range", "", []string{"--https-listen-port=70000"}, []string{"--https-listen-port", "70000"}},
		{"a mode that is none", "", []string{"--write-kubeconfig-mode=rw"}, []string{"--write-kubeconfig-mode", `"rw"`}},
		{"a bool that is none", "disable-agent: maybe\n", nil, []string{"config.yaml:1:1", `"maybe"`}},
		{"an address that is none", "", []string{"--bind-address=localhost"}, []string{"--bind-address", "not an IP"}},
		{"a component argument without value", "", []string{"--kube-apiserver-arg=v"}, []string{"--kube-apiserver-arg", "key=value"}},
		{"a network that is none", "service-cidr: 10.43\n", nil, []string{"config.yaml:1:1", "10.43"}},
		{"config inside config", "config: x\n", nil, []string{"config.yaml:1:1", "configuration file"}},
	} {
		t.Run(test.what, func(t *testing.T) {
			path := writeTree(t, map[string]string{"config.yaml": test.yaml})
			_, err := Load(append([]string{"--config", path}, test.args...), noEnv)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %q", err, want)
				}
			}
		})
	}
}

func TestMissingFileIsAnErrorOnlyWhenNamed(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "config.yaml")
	if _, err := readFiles(missing, false); err != nil {
		t.Errorf("default file: %v", err)
	}
	if _, err := readFiles(missing, true); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("named file: %v", err)
	}
}

func TestHelpListsEveryFlag(t *testing.T) {
	if _, err := Load([]string{"--help"}, noEnv); !errors.Is(err, ErrHelp) {
		t.Fatalf("got %v", err)
	}
	text := Help()
	for _, f := range flags {
		if !strings.Contains(text, "--"+f.name) {
			t.Errorf("%s is missing", f.name)
		}
		if (f.usage == "") == (f.ignored == "") {
			t.Errorf("%s needs a usage text or a reason for being ignored, and not both", f.name)
		}
	}
}
