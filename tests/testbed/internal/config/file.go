package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// readFiles reads a configuration file and its drop-ins in k3s' order. A missing main file
// is an error only where someone named it; drop-ins count even without it.
func readFiles(path string, named bool) (values, error) {
	merged := values{}
	switch text, err := os.ReadFile(path); {
	case err == nil:
		if err := mergeYAML(merged, path, text); err != nil {
			return nil, err
		}
	case errors.Is(err, fs.ErrNotExist) && !named:
	default:
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}

	dropins, err := dropinPaths(path + ".d")
	if err != nil {
		return nil, fmt.Errorf("cannot read the drop-ins: %w", err)
	}
	for _, dropin := range dropins {
		text, err := os.ReadFile(dropin)
		if err != nil {
			return nil, fmt.Errorf("cannot read the configuration: %w", err)
		}
		if err := mergeYAML(merged, dropin, text); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

// dropinPaths lists *.yaml and *.yml of a directory in alphabetical order.
func dropinPaths(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		extension := filepath.Ext(entry.Name())
		if !entry.IsDir() && (extension == ".yaml" || extension == ".yml") {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	sort.Strings(paths)
	return paths, nil
}

// mergeYAML lays one file over what came before it.
func mergeYAML(into values, path string, text []byte) error {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return syntaxError(path, err)
	}
	for _, document := range file.Docs {
		switch body := document.Body.(type) {
		case nil, *ast.NullNode, *ast.CommentGroupNode:
		case *ast.MappingNode:
			for _, entry := range body.Values {
				if err := mergeEntry(into, path, entry); err != nil {
					return err
				}
			}
		case *ast.MappingValueNode:
			if err := mergeEntry(into, path, body); err != nil {
				return err
			}
		default:
			return at(path, body, "the file must hold keys and values (`tls-san: [name]`), not a bare %s", strings.ToLower(body.Type().String()))
		}
	}
	return nil
}

// mergeEntry applies one `key: value` or `key+: value`.
func mergeEntry(into values, path string, entry *ast.MappingValueNode) error {
	key := entry.Key.GetToken().Value
	name, join := strings.CutSuffix(key, "+")
	found, known := lookup(name)
	if !known {
		return at(path, entry.Key, "unknown key %q: the testbed knows no such k3s flag (`k3s-testbed server --help` lists them)", key)
	}
	if found.name == "config" {
		return at(path, entry.Key, "%q cannot be set in a configuration file", key)
	}
	items, err := yamlItems(entry.Value, found.kind)
	if err != nil {
		return at(path, entry.Value, "%s: %v", key, err)
	}
	into.set(found.name, items, fmt.Sprintf("%s (%s)", position(path, entry.Key), key), join)
	return nil
}

// yamlItems flattens a YAML value; a scalar is a list of one.
func yamlItems(node ast.Node, kind kind) ([]string, error) {
	var raw any
	if err := yaml.NodeToValue(node, &raw); err != nil {
		return nil, fmt.Errorf("the value cannot be read")
	}
	if raw == nil && kind == boolean {
		return []string{"true"}, nil
	}
	elements, isList := raw.([]any)
	if !isList {
		elements = []any{raw}
	}
	items := make([]string, 0, len(elements))
	for _, element := range elements {
		switch element.(type) {
		case nil:
			return nil, errors.New("the value is empty: give one, or take the line out")
		case map[string]any, []any, yaml.MapSlice:
			return nil, errors.New("the value must be a scalar or a flat list")
		}
		items = append(items, fmt.Sprint(element))
	}
	return items, nil
}

// syntaxError names file, line and column of text that is not YAML.
func syntaxError(path string, err error) error {
	var syntax yaml.Error
	if errors.As(err, &syntax) && syntax.GetToken() != nil {
		where := syntax.GetToken().Position
		return fmt.Errorf("%s:%d:%d: not valid YAML: %s", path, where.Line, where.Column, syntax.GetMessage())
	}
	return fmt.Errorf("%s: not valid YAML: %s", path, err)
}

func position(path string, node ast.Node) string {
	where := node.GetToken().Position
	return fmt.Sprintf("%s:%d:%d", path, where.Line, where.Column)
}

func at(path string, node ast.Node, format string, args ...any) error {
	return fmt.Errorf("%s: %s", position(path, node), fmt.Sprintf(format, args...))
}
