package controlplane

import (
	"sort"
	"strings"
)

// mergeArgs turns defaults and the user's key=value list into flags. As with k3s a user's
// value replaces the default of its key; a repeated key is passed on as often as given.
func mergeArgs(defaults map[string]string, extra []string) []string {
	overridden := map[string]bool{}
	for _, arg := range extra {
		key, _, _ := strings.Cut(arg, "=")
		overridden[strings.TrimLeft(key, "-")] = true
	}
	var out []string
	for key, value := range defaults {
		if !overridden[key] {
			out = append(out, "--"+key+"="+value)
		}
	}
	sort.Strings(out)
	for _, arg := range extra {
		out = append(out, "--"+strings.TrimLeft(arg, "-"))
	}
	return out
}
