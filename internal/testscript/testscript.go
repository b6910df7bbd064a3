package testscript

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what the scripts under testdata gave into them")

// Begin begins a script. The function that it returns carries out one command and
// returns the lines of its output.
type Begin func(t *testing.T) func(command string) []string

// Run runs the scripts of a file. One that has names for none of its lines is one script.
func Run(t *testing.T, file string, begin Begin) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// A name stands at the beginning of a line; so does the file.
	parts := strings.Split("\n"+string(content), "\n= ")
	if len(parts) == 1 {
		parts[0] = run(t, parts[0], begin(t))
	}
	for i, part := range parts[1:] {
		name, script, _ := strings.Cut(part, "\n")
		t.Run(name, func(t *testing.T) { parts[i+1] = name + "\n" + run(t, script, begin(t)) })
	}
	if !*rewrite {
		return
	}
	if err := os.WriteFile(file, []byte(strings.Join(parts, "\n= ")[1:]), 0o600); err != nil {
		t.Fatal(err)
	}
}

// RunAll runs the files of a folder, each as a test that is named like it, without
// ".txt".
func RunAll(t *testing.T, folder string, begin Begin) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no scripts: %v", folder, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { Run(t, file, begin) })
	}
}

// run carries a script out and returns it with the output that it gave.
func run(t *testing.T, script string, carryOut func(string) []string) string {
	t.Helper()
	var is strings.Builder
	command := "before the first command"
	var got, want []string
	compare := func() {
		t.Helper()
		if !slices.Equal(got, want) && !*rewrite {
			t.Fatalf("%s\nexpected:\n%s\ngot (-rewrite keeps it):\n%s", command, strings.Join(want, "\n"), strings.Join(got, "\n"))
		}
		got, want = nil, nil
	}
	for line := range strings.Lines(script) {
		line = strings.TrimSuffix(line, "\n")
		if output, ok := strings.CutPrefix(line, "< "); ok {
			want = append(want, output)
			continue
		}
		compare()
		is.WriteString(line + "\n")
		if input, ok := strings.CutPrefix(line, "> "); ok {
			command = line
			for _, output := range carryOut(input) {
				got = append(got, output)
				is.WriteString("< " + output + "\n")
			}
		} else if line != "" && line[0] != '#' {
			t.Fatalf("neither command, output nor comment: %q", line)
		}
	}
	compare()
	return is.String()
}
