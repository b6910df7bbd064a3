package main

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
)

// docs/cli.md lists the commands and the exit codes that there are.
func TestCommandLineIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, there []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\|").FindAllSubmatch(text, -1) {
		documented = append(documented, string(m[1]))
	}
	for _, c := range newRoot().Commands() {
		if c.IsAvailableCommand() && c.Name() != "help" && c.Name() != "completion" {
			there = append(there, c.Name())
		}
	}
	slices.Sort(documented)
	slices.Sort(there)
	if !slices.Equal(documented, there) {
		t.Errorf("documented are\n%q, there are\n%q", documented, there)
	}
	for _, code := range []int{exit.CodeOther, exit.CodeUsage, exit.CodeData, exit.CodeUnavailable, exit.CodeLost, exit.CodeNotAcquired, exit.CodeDenied} {
		if !regexp.MustCompile(`(?m)^\| ` + strconv.Itoa(code) + ` \|`).Match(text) {
			t.Errorf("the exit code %d is not documented", code)
		}
	}
}
