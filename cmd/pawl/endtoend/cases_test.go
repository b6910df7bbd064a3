package endtoend

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// caseNamed is a case in the comment of a test, casePlace a package in a row.
	caseNamed = regexp.MustCompile(`(?m)^\s*//.*$`)
	caseID    = regexp.MustCompile(`\bC\d\d\b`)
	casePlace = regexp.MustCompile("\\[`([^`]+)`\\]")
)

// docs/cases.md says of every case in which packages tests name it, and lists
// every case that a test names.
func TestCasesAreAsDocumented(t *testing.T) {
	named := map[string]map[string]bool{}
	tree := os.DirFS(root)
	err := fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.IsDir() && file != "." && strings.HasPrefix(d.Name(), ".") {
				return fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		for _, comment := range caseNamed.FindAll(text, -1) {
			for _, id := range caseID.FindAllString(string(comment), -1) {
				place := path.Dir(file)
				if place == "." {
					place = "pawl"
				}
				if named[id] == nil {
					named[id] = map[string]bool{}
				}
				named[id][place] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(root + "docs/cases.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		id := strings.TrimSpace(cells[0])
		if len(cells) != 4 || caseID.FindString(id) != id || id == "" {
			continue
		}
		rows[id] = true
		var says []string
		for _, m := range casePlace.FindAllStringSubmatch(cells[3], -1) {
			says = append(says, m[1])
		}
		slices.Sort(says)
		if tested := slices.Sorted(maps.Keys(named[id])); !slices.Equal(says, tested) {
			t.Errorf("docs/cases.md says that %s is tested in %v; tests of %v name it", id, says, tested)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if !rows[id] {
			t.Errorf("docs/cases.md has no row for %s, which tests of %v name", id, slices.Sorted(maps.Keys(named[id])))
		}
	}
}
