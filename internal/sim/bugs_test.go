package sim

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The table of planted bugs in docs/ names every bug that can be planted; make
// planted looks for each, and keeps the seeds true.
func TestPlantedTable(t *testing.T) {
	raw, err := os.ReadFile("../../docs/planted.md")
	if err != nil {
		t.Fatal(err)
	}
	bugs, shipped, _ := strings.Cut(string(raw), "\n## ")
	rows := 0
	for line := range strings.Lines(bugs) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| bug") {
			rows++
		}
	}
	all := slices.Clone(Bugs)
	for _, b := range RareBugs {
		all = append(all, b.Bug)
	}
	if rows != len(all) {
		t.Errorf("docs/planted.md has %d rows, and there are %d bugs: make planted-table", rows, len(all))
	}
	for _, b := range all {
		if row := fmt.Sprintf("| %s | %s | %s |", b.Name, b.Where, b.Why); !strings.Contains(string(raw), row) {
			t.Errorf("docs/planted.md lacks %q: make planted-table", row)
		}
	}
	for _, x := range Shipped {
		if !slices.ContainsFunc(Bugs, func(b Bug) bool { return b.Name == x.Bug }) {
			t.Errorf("%q is planted as %q, which is no bug", x.Mistake, x.Bug)
		}
		if row := fmt.Sprintf("| %s | %s |", x.Mistake, x.Bug); !strings.Contains(shipped, row) {
			t.Errorf("docs/planted.md lacks %q: make planted-table", row)
		}
	}
}
