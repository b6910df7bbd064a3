package planted

import (
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Apply returns the changed files by their path from the root of the repository. It
// fails when a change does not fit exactly once, or when a result does not parse.
func (b Bug) Apply(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, c := range b.Changes {
		text, ok := files[c.File]
		if !ok {
			raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(c.File)))
			if err != nil {
				return nil, fmt.Errorf("%s: %q: %w", b.at, b.Name, err)
			}
			text = string(raw)
		}
		next, err := c.apply(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", b.at, b.Name, err)
		}
		files[c.File] = next
	}
	for name, text := range files {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution); err != nil {
			return nil, fmt.Errorf("%s: %q leaves what does not parse: %w", b.at, b.Name, err)
		}
	}
	return files, nil
}

// apply changes a file's text.
func (c Change) apply(text string) (string, error) {
	whole, old := "\n"+text, "\n"+c.Old+"\n"
	if n := strings.Count(whole, old); n != 1 {
		return "", fmt.Errorf("what a change of %s replaces is there %d times, and must be there once:\n%s", c.File, n, c.Old)
	}
	next := "\n"
	if c.New != "" {
		next += c.New + "\n"
	}
	return strings.Replace(whole, old, next, 1)[1:], nil
}

// Overlay applies the bug and writes what go build -overlay takes into a folder:
// the changed files, and the list of them, whose path it returns.
func (b Bug) Overlay(root, folder string) (string, error) {
	files, err := b.Apply(root)
	if err != nil {
		return "", err
	}
	var list struct{ Replace map[string]string }
	list.Replace = map[string]string{}
	for name, text := range files {
		copied := filepath.Join(folder, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("write the overlay: %w", err)
		}
		list.Replace[filepath.Join(root, filepath.FromSlash(name))] = copied
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	path := filepath.Join(folder, "overlay.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return path, nil
}

// Record writes the ways of the bugs back into their files, where they differ
// from what stands there.
func Record(root string, bugs []Bug) error {
	var rooms []string
	for _, b := range bugs {
		rooms = append(rooms, b.Room)
	}
	slices.Sort(rooms)
	for _, room := range slices.Compact(rooms) {
		path := filepath.Join(root, filepath.FromSlash(Folder), room+".txt")
		raw, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("record: %w", err)
		}
		lines := strings.Split(string(raw), "\n")
		for _, b := range bugs {
			for _, w := range b.Ways {
				if b.Room == room {
					lines[w.line] = "found: " + w.String()
				}
			}
		}
		if next := strings.Join(lines, "\n"); next != string(raw) {
			if err := os.WriteFile(path, []byte(next), 0o644); err != nil {
				return fmt.Errorf("record: %w", err)
			}
		}
	}
	return nil
}
