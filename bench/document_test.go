package main

import (
	"os"
	"strings"
	"testing"
)

func TestFill(t *testing.T) {
	const page = "# Title\n\n<!-- bench: a -->\nold\nlines\n<!-- bench: end -->\n\nkept\n\n<!-- bench: b -->\n<!-- bench: end -->\nthe end\n"
	got, err := fill(page, map[string]string{"a": "new\n", "b": "| x |\n|---|\n"})
	const want = "# Title\n\n<!-- bench: a -->\nnew\n<!-- bench: end -->\n\nkept\n\n<!-- bench: b -->\n| x |\n|---|\n<!-- bench: end -->\nthe end\n"
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
	again, err := fill(got, map[string]string{"a": "new\n"})
	if err != nil || again != want {
		t.Errorf("a second time: %v\n%s", err, again)
	}
}

func TestFillWithoutAPlace(t *testing.T) {
	for _, page := range []string{"", "<!-- bench: a -->\nno end\n", "<!-- bench: other -->\n<!-- bench: end -->\n"} {
		if _, err := fill(page, map[string]string{"a": "x"}); err == nil || !strings.Contains(err.Error(), "no place for a") {
			t.Errorf("%q: %v", page, err)
		}
	}
}

// The page must have a place for whatever a run can write.
func TestPageHasPlaceForEveryPart(t *testing.T) {
	page, err := os.ReadFile("../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{"summary": "", "machine": "", "losses": ""}
	for _, r := range rows {
		parts[r.name] = ""
	}
	if _, err := fill(string(page), parts); err != nil {
		t.Error(err)
	}
}
