package fencing

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

//go:generate go run ./generate -root ../..

// The files that Write writes, below the repository.
const (
	TableFile = "internal/fencing/table/table.json"
	PageFile  = "docs/fencing-without-a-fence.md"
	Drawings  = "docs/fencing"
)

// Files returns what is generated, by path: the table itself, the page, of
// which the text outside of the marks is kept, and the drawings.
func (o Outcome) Files(page string) (map[string][]byte, error) {
	text, err := json.MarshalIndent(o.Table, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the table: %w", err)
	}
	marked, err := fillPage(page, o.Table)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{TableFile: append(text, '\n'), PageFile: []byte(marked)}
	for name, d := range o.drawings {
		files[Drawings+"/"+name] = d.svg()
	}
	return files, nil
}

// Write writes the generated files below the root of a repository.
func (o Outcome) Write(root string) error {
	page, err := os.ReadFile(filepath.Join(root, PageFile))
	if err != nil {
		return fmt.Errorf("read the page: %w", err)
	}
	files, err := o.Files(string(page))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, Drawings), 0o755); err != nil {
		return fmt.Errorf("make the folder of drawings: %w", err)
	}
	for name, text := range files {
		at := filepath.Join(root, filepath.FromSlash(name))
		if was, err := os.ReadFile(at); err == nil && bytes.Equal(was, text) {
			continue
		}
		if err := os.WriteFile(at, text, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// Summary says how much was looked at.
func (o Outcome) Summary() string {
	cells, states, examples := 0, 0, 0
	for _, c := range o.Table.Cells {
		if c.None == "" {
			cells++
		}
		states += c.States
		examples += len(c.Lacks)
	}
	return fmt.Sprintf("%d cells, %d counter-examples, %d states", cells, examples, states)
}
