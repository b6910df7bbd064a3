package sim

import (
	"fmt"
	"os"
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
	rows := 0
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| bug") {
			rows++
		}
	}
	if rows != len(Bugs) {
		t.Errorf("docs/planted.md has %d rows, and there are %d bugs: make planted-table", rows, len(Bugs))
	}
	for _, b := range Bugs {
		if row := fmt.Sprintf("| %s | %s | %s |", b.Name, b.Where, b.Why); !strings.Contains(string(raw), row) {
			t.Errorf("docs/planted.md lacks %q: make planted-table", row)
		}
	}
}
