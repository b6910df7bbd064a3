package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

var (
	metricSaid = regexp.MustCompile(`(?m)^# HELP (pawl_\S+) (.*)\n# TYPE pawl_\S+ (\S+)$`)
	metricRow  = regexp.MustCompile("(?m)^\\| `pawl_[a-z_]+` \\| .*$")
)

// Docs/metrics.md has what a server with everything switched on shows, and a guard's proxy,
// in their own words, and nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := metricRow.FindAllString(string(text), -1)
	code, _, shown := newFortress(t).ask("root", "GET", "/metrics", "")
	res, err := http.Get(guardProxy(t, "http://"+closedPort(t), filepath.Join(t.TempDir(), "state.db")).metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	proxy, err := io.ReadAll(res.Body)
	if err != nil || len(proxy) == 0 {
		t.Fatalf("the proxy shows %d bytes (%v)", len(proxy), err)
	}
	var there []string
	for _, m := range metricSaid.FindAllStringSubmatch(shown+string(proxy), -1) {
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
