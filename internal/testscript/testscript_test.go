package testscript

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// echo repeats each command's words, a line each, and how many commands came before.
func echo(*testing.T) func(string) []string {
	n := 0
	return func(command string) []string {
		n++
		return append(strings.Fields(command), strings.Repeat("i", n))
	}
}

const script = `# Two scripts.

= one
> a b
< a
< b
< i
# The second command.
> c
< c
< ii

= two
> d
< d
< i
`

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestScriptsOfAFileBeginAnew(t *testing.T) {
	Run(t, write(t, "scripts.txt", script), echo)
	RunAll(t, filepath.Dir(write(t, "one.txt", "> a\n< a\n< i\n")), echo)
}

func TestRewriteRestoresTheOutput(t *testing.T) {
	*rewrite = true
	defer func() { *rewrite = false }()
	for _, was := range []string{
		strings.ReplaceAll(strings.ReplaceAll(script, "< b\n", ""), "< d\n", "< other\n< more\n"),
		script,
	} {
		file := write(t, "scripts.txt", was)
		Run(t, file, echo)
		is, err := os.ReadFile(file)
		if err != nil || string(is) != script {
			t.Errorf("the file has, %v\n%s", err, is)
		}
	}
}
