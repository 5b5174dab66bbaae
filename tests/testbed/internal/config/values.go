package config

import "strings"

// value is what one source (a file, the environment, the command line) says of one flag.
type value struct {
	items  []string
	origin string // for messages: "--tls-san", "K3S_TOKEN", "config.yaml:3:1 (tls-san)"
}

// values maps the long name of a flag to its value.
type values map[string]value

// set replaces, or with join appends to, what is known of a flag.
func (v values) set(name string, items []string, origin string, join bool) {
	if old, known := v[name]; known && join {
		items = append(append([]string{}, old.items...), items...)
	}
	v[name] = value{items: items, origin: origin}
}

// overlay lets every value of top replace the one below it, whole lists included.
func (v values) overlay(top values) {
	for name, val := range top {
		v[name] = val
	}
}

// last is the value that counts for a scalar; a list given for one ends in its last item,
// as k3s turns lists into repeated flags.
func (v values) last(name, fallback string) string {
	if val, known := v[name]; known && len(val.items) > 0 {
		return val.items[len(val.items)-1]
	}
	return fallback
}

// all are the values of a list flag.
func (v values) all(name string) []string {
	return v[name].items
}

// parts are the values of a list flag split at commas; empty parts vanish. A space stays
// part of the name, as it does in k3s, so that the mistake is seen where it is made.
func (v values) parts(name string) []string {
	var out []string
	for _, item := range v[name].items {
		for _, part := range strings.Split(item, ",") {
			if part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}
