package tidy

import (
	"regexp"
	"strings"
	"testing"
)

var attackRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]*) \|$`)

// Each attack of docs/security.md has an answer and names tests, and there are tests
// of these names.
func TestAttacksNameTheirTests(t *testing.T) {
	tree := load(t)
	there := testsIn(tree)
	_, table, _ := strings.Cut(read(t, tree, "docs/security.md"), "\n## Attacks\n")
	rows := attackRow.FindAllStringSubmatch(table, -1)
	if lines := strings.Count(table, "\n|"); lines != len(rows)+1 { // the rule below the head has no blanks
		t.Errorf("%d of %d lines of the table can be read", len(rows), lines)
	}
	if len(rows) < 30 {
		t.Fatalf("%d attacks are named", len(rows))
	}
	for _, row := range rows[1:] {
		tests := namedTest.FindAllStringSubmatch(row[3], -1)
		if len(tests) == 0 || len(tests) != strings.Count(row[3], "Test") {
			t.Errorf("%q names %d tests in %q", row[1], len(tests), row[3])
		}
		for _, m := range tests {
			dir := m[1]
			if dir == "pawl" {
				dir = "."
			}
			if !there[dir+"."+m[2]] {
				t.Errorf("%q names %s in %s, which is not there", row[1], m[2], m[1])
			}
		}
	}
}
