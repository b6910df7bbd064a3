package tidy

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestAPI compares what each public package exports with the api.golden beside
// it, so that a change of the public surface shows in review.
func TestAPI(t *testing.T) {
	tree := load(t)
	names, dirs := tree.byDir()
	recorded := map[string]bool{}
	for _, dir := range names {
		if !public(dir) {
			continue
		}
		got := api(dirs[dir])
		if got == "" {
			continue
		}
		recorded[apiFile(dir)] = true
		t.Run(dir, func(t *testing.T) {
			golden(t, filepath.Join(tree.Root, filepath.FromSlash(apiFile(dir))), got)
		})
	}
	for _, p := range tree.Paths {
		if filepath.Base(p) == "api.golden" && !recorded[p] {
			t.Errorf("%s records a package that is gone", p)
		}
	}
}

func TestAPIShowsEveryChange(t *testing.T) {
	const before = `package p

// T is shown without this.
type T struct {
	A int // nor this
	b int
}

func (T) M() {}
func (t *t2) M() {}
type t2 struct{}
type I interface{ Do(int) error }
const C, d = 1, 2
var V []string
func F[K comparable](k K) (err error) { return nil }
func g() {}
`
	listing := func(src string) string {
		tree, err := Parse(map[string][]byte{"p.go": []byte(src)})
		if err != nil {
			t.Fatal(err)
		}
		return api(tree.Files)
	}
	first := listing(before)
	for _, hidden := range []string{"t2", "func g", "b int", "d ", "shown without", "nor this"} {
		if strings.Contains(first, hidden) {
			t.Errorf("shows %q:\n%s", hidden, first)
		}
	}
	for _, change := range [][2]string{
		{"A int", "A int64"},
		{"\tA int // nor this\n", ""},
		{"func (T) M()", "func (*T) M()"},
		{"Do(int) error", "Do(int64) error"},
		{"const C, d", "const E, d"},
		{"V []string", "V []int"},
		{"K comparable", "K any"},
		{"func g()", "func G()"},
	} {
		after := strings.Replace(before, change[0], change[1], 1)
		if after == before {
			t.Fatalf("the source holds no %q", change[0])
		}
		if listing(after) == first {
			t.Errorf("%q for %q does not show", change[1], change[0])
		}
	}
	for _, change := range [][2]string{{"b int", "c string"}, {"return nil", "return err"}, {"func g()", "func h()"}, {"nor this", "or that"}} {
		after := strings.Replace(before, change[0], change[1], 1)
		if missing, added := lineDiff(first, listing(after)); len(missing)+len(added) > 0 {
			t.Errorf("%q for %q shows: %q %q", change[1], change[0], missing, added)
		}
	}
}

// lineDiff says which lines of one text the other lacks, either way.
func lineDiff(want, got string) (missing, added []string) {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for _, line := range a {
		if !slices.Contains(b, line) {
			missing = append(missing, line)
		}
	}
	for _, line := range b {
		if !slices.Contains(a, line) {
			added = append(added, line)
		}
	}
	return missing, added
}
