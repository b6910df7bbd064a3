package main

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

var (
	metricSaid = regexp.MustCompile(`(?m)^# HELP (pawl_\S+) (.*)\n# TYPE pawl_\S+ (\S+)$`)
	metricRow  = regexp.MustCompile("(?m)^\\| `pawl_[a-z_]+` \\| .*$")
)

// Docs/metrics.md has what a server with everything switched on shows, in its own words,
// and nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := metricRow.FindAllString(string(text), -1)
	code, _, shown := newFortress(t).ask("root", "GET", "/metrics", "")
	var there []string
	for _, m := range metricSaid.FindAllStringSubmatch(shown, -1) {
		there = append(there, "| `"+m[1]+"` | "+m[3]+" | "+m[2]+" |")
	}
	if code != 200 || len(there) == 0 {
		t.Fatalf("%d\n%s", code, shown)
	}
	for _, row := range there {
		if !slices.Contains(documented, row) {
			t.Errorf("not documented, or otherwise:\n%s", row)
		}
	}
	for _, row := range documented {
		if !slices.Contains(there, row) {
			t.Errorf("documented, and not there, or otherwise:\n%s", row)
		}
	}
}
