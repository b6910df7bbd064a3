package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// A page holds text that people keep and parts that a run writes. Each part
// stands between two marker lines.
func beginMarker(name string) string { return "<!-- bench: " + name + " -->" }

const endMarker = "<!-- bench: end -->"

// fill replaces the parts of a page. It is an error when a part has no place,
// and then nothing is replaced.
func fill(page string, parts map[string]string) (string, error) {
	var missing []error
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		before, rest, found := strings.Cut(page, beginMarker(name)+"\n")
		_, after, ends := strings.Cut(rest, endMarker)
		if !found || !ends {
			missing = append(missing, fmt.Errorf("the page has no place for %s: %s and %s", name, beginMarker(name), endMarker))
			continue
		}
		page = before + beginMarker(name) + "\n" + strings.TrimRight(parts[name], "\n") + "\n" + endMarker + after
	}
	return page, errors.Join(missing...)
}

func fillFile(path string, parts map[string]string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	filled, err := fill(string(page), parts)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(filled), 0o644)
}
