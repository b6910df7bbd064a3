package planted

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// Every bug applies to the present files at one place, and leaves Go that parses.
// Command hunt compiles each, and looks for it.
func TestEveryBugApplies(t *testing.T) {
	bugs, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bugs {
		if _, err := b.Apply(root); err != nil {
			t.Error(err)
		}
		for _, w := range b.Ways {
			if w.By != ByTest && w.Invariant == "" {
				t.Errorf("%s: %q does not say what breaks (make planted-table fills it in)", b.at, b.Name)
			}
		}
	}
}

// Every test that is to find a bug is there: a bug whose test was renamed is found by
// nothing.
func TestEveryBugNamesATest(t *testing.T) {
	bugs, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bugs {
		for _, w := range b.Ways {
			if w.By != ByTest {
				continue
			}
			name, _, _ := strings.Cut(w.Run, "/")
			there, err := hasTest(filepath.Join(root, w.Package), regexp.MustCompile(`(?m)^func `+strings.Trim(name, "^$")))
			if err != nil || !there {
				t.Errorf("%s: %q names %s in %s, which is not there (%v)", b.at, b.Name, name, w.Package, err)
			}
		}
	}
}

// hasTest reports whether a test in a folder begins with a line.
func hasTest(folder string, line *regexp.Regexp) (bool, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return false, err
		}
		if line.Match(text) {
			return true, nil
		}
	}
	return false, err
}

func TestPage(t *testing.T) {
	bugs, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(root, PagePath))
	if err != nil {
		t.Fatal(err)
	}
	if string(raw) != Page(bugs) {
		t.Errorf("%s does not say what the bugs say: make planted-table", PagePath)
	}
}

const example = `# A comment.
bug: one
why: it is wrong
ships: they do so
found: sim 18 I5
found: small renewals I9
found: test ./x TestX/y
file: x/x.go
-	a()
+	b()

 	c()

@@
-	d()
file: x/y.go
 	e()
+	f()

bug: two
why: it is wrong, too
found: sim
file: x/x.go
+	import "z"
 	a()
`

func TestParse(t *testing.T) {
	bugs, err := Parse("x", example)
	if err != nil {
		t.Fatal(err)
	}
	if len(bugs) != 2 {
		t.Fatalf("%d bugs, want 2", len(bugs))
	}
	one := bugs[0]
	if one.Room != "x" || one.Name != "one" || one.Why != "it is wrong" || one.Ships != "they do so" {
		t.Errorf("read %+v", one)
	}
	for i, want := range []string{"sim 18 I5", "small renewals I9", "test ./x TestX/y"} {
		if got := one.Ways[i].String(); got != want {
			t.Errorf("way %q, want %q", got, want)
		}
	}
	if got := bugs[1].Ways[0].String(); got != "sim" {
		t.Errorf("way %q, want sim", got)
	}
	for i, want := range []Change{
		{"x/x.go", "\ta()\n\n\tc()", "\tb()\n\n\tc()"},
		{"x/x.go", "\td()", ""},
		{"x/y.go", "\te()", "\te()\n\tf()"},
	} {
		if one.Changes[i] != want {
			t.Errorf("change %+v, want %+v", one.Changes[i], want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const fields = "bug: b\nwhy: w\nfound: sim 1 I1\n"
	for name, text := range map[string]string{
		"no why":               "bug: b\nfound: sim 1 I1\nfile: f\n-a\n",
		"no way":               "bug: b\nwhy: w\nfile: f\n-a\n",
		"no change":            fields,
		"an empty change":      fields + "file: f\n",
		"nothing changed":      fields + "file: f\n a\n",
		"nothing to find":      fields + "file: f\n+a\n",
		"a change of no file":  fields + "-a\n",
		"an unknown field":     fields + "who: me\nfile: f\n-a\n",
		"a field twice":        fields + "why: w\nfile: f\n-a\n",
		"a field after a file": fields + "file: f\n-a\nwhy: w\n",
		"a field of no bug":    "why: w\n",
		"no field at all":      fields + "file: f\n-a\nb\n",
		"an unknown way":       "bug: b\nwhy: w\nfound: luck\nfile: f\n-a\n",
		"a way too short":      "bug: b\nwhy: w\nfound: test ./x\nfile: f\n-a\n",
		"a way too long":       "bug: b\nwhy: w\nfound: sim 1 I1 I2\nfile: f\n-a\n",
		"a seed of no number":  "bug: b\nwhy: w\nfound: sim I1\nfile: f\n-a\n",
	} {
		if bugs, err := Parse("x", text); err == nil {
			t.Errorf("%s: read as %+v", name, bugs)
		}
	}
}

func TestLoadRefusesNameTwice(t *testing.T) {
	dir := t.TempDir()
	for _, room := range []string{"x", "y"} {
		write(t, filepath.Join(dir, Folder, room+".txt"), "bug: b\nwhy: w\nfound: sim 1 I1\nfile: f\n-a\n")
	}
	if _, err := Load(dir); err == nil {
		t.Error("two bugs have one name")
	}
}

func TestApply(t *testing.T) {
	const text = "package x\n\nfunc f() {\n\ta()\n\tb()\n\ta()\n}\n"
	for _, x := range []struct {
		what, old, next string
		want            string // "": it is refused
	}{
		{"a line", "\tb()", "\tc()", "package x\n\nfunc f() {\n\ta()\n\tc()\n\ta()\n}\n"},
		{"a line that goes", "\tb()", "", "package x\n\nfunc f() {\n\ta()\n\ta()\n}\n"},
		{"the first line", "package x", "package y", "package y\n\nfunc f() {\n\ta()\n\tb()\n\ta()\n}\n"},
		{"the last line", "\ta()\n}", "}", "package x\n\nfunc f() {\n\ta()\n\tb()\n}\n"},
		{"what is not there", "\tc()", "", ""},
		{"what is there twice", "\ta()", "", ""},
		{"part of a line", "b()", "", ""},
		{"what does not parse then", "}", "", ""},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "x.go"), text)
		files, err := Bug{Name: "b", Changes: []Change{{"x.go", x.old, x.next}}}.Apply(dir)
		if got := files["x.go"]; got != x.want || (err != nil) != (x.want == "") {
			t.Errorf("%s: %q, %v", x.what, got, err)
		}
	}
}

func TestChangesApplyInOrder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "x.go"), "package x\n\nvar a = 1\n")
	b := Bug{Name: "b", Changes: []Change{{"x.go", "var a = 1", "var a = 2"}, {"x.go", "var a = 2", "var a = 3"}}}
	files, err := b.Apply(dir)
	if err != nil || files["x.go"] != "package x\n\nvar a = 3\n" {
		t.Errorf("%q, %v", files["x.go"], err)
	}
}

// What hunt found is written back, and nothing else of the file changes.
func TestRecord(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, Folder, "x.txt")
	write(t, path, example)
	bugs, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	bugs[1].Ways[0].Seed, bugs[1].Ways[0].Invariant = 7, "I1"
	if err := Record(dir, bugs); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if want := strings.Replace(example, "found: sim\n", "found: sim 7 I1\n", 1); err != nil || string(got) != want {
		t.Errorf("the file holds, %v:\n%s", err, got)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
