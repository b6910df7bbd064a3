package tidy

import (
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	caseID   = regexp.MustCompile(`\bC\d\d\b`)
	caseRow  = regexp.MustCompile(`(?m)^\| (C\d\d) \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$`)
	partPath = regexp.MustCompile("`([^`]+)`")
)

// casesIn are the tests that name each case in a comment of theirs, above them or
// within; strays are comments that name one and belong to no test.
func casesIn(tree *Tree) (named map[string][]string, strays []string) {
	named = map[string][]string{}
	for _, f := range tree.Files {
		if !f.Test || f.Dir() == "internal/tidy" {
			continue
		}
		for _, group := range f.AST.Comments {
			ids := caseID.FindAllString(group.Text(), -1)
			if len(ids) == 0 {
				continue
			}
			test := ""
			for _, d := range f.AST.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if ok && strings.HasPrefix(fn.Name.Name, "Test") && (fn.Doc == group || fn.Pos() <= group.Pos() && group.End() <= fn.End()) {
					test = strings.Replace(f.Dir(), ".", "pawl", 1) + "." + fn.Name.Name
				}
			}
			if test == "" {
				strays = append(strays, f.Path+" names "+ids[0]+" above no test")
			}
			for _, id := range ids {
				if test != "" && !slices.Contains(named[id], test) {
					named[id] = append(named[id], test)
				}
			}
		}
	}
	for id := range named {
		slices.Sort(named[id])
	}
	return named, strays
}

// Each case of docs/internals/cases.md names the tests whose comments name it, all of them.
// One that has none waits for a part that is not there yet, and says which.
func TestCasesNameTheirTests(t *testing.T) {
	tree := load(t)
	named, strays := casesIn(tree)
	for _, stray := range strays {
		t.Error(stray)
	}
	rows := caseRow.FindAllStringSubmatch(read(t, tree, "docs/internals/cases.md"), -1)
	if len(rows) < 70 {
		t.Errorf("%d cases can be read", len(rows))
	}
	there := map[string]bool{}
	for _, row := range rows {
		id := row[1]
		if there[id] {
			t.Errorf("%s stands there twice", id)
		}
		there[id] = true
		var says []string
		for _, m := range namedTest.FindAllStringSubmatch(row[4], -1) {
			says = append(says, m[1]+"."+m[2])
		}
		slices.Sort(says)
		if !slices.Equal(says, named[id]) {
			t.Errorf("%s is tested in\n%s", id, "`"+strings.Join(named[id], "`, `")+"`")
		}
		if len(says) == 0 && strings.TrimSpace(row[5]) == "" {
			t.Errorf("%s has no test, and waits for nothing", id)
		}
		for _, m := range partPath.FindAllStringSubmatch(row[5], -1) {
			if slices.ContainsFunc(tree.Paths, func(p string) bool { return p == m[1] || strings.HasPrefix(p, m[1]+"/") }) {
				t.Errorf("%s waits for %s, which is there", id, m[1])
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(named)) {
		if !there[id] {
			t.Errorf("%s has no row; it is named by %v", id, named[id])
		}
	}
}

// A case is found in a comment above a test and within one, and nowhere else counts.
func TestCaseNumbersAreFound(t *testing.T) {
	const src = "package pawl\n\nimport \"testing\"\n\n// C01, C02: one thing.\nfunc TestA(t *testing.T) {\n\t// C03: another.\n}\n\n// C04 of nobody.\nvar x int\n\n// ABC05 is none.\nfunc TestB(t *testing.T) {}\n"
	tree, err := Parse(map[string][]byte{"cmd/pawl/a_test.go": []byte(src), "a.go": []byte("// C09: no test.\npackage pawl\n")})
	if err != nil {
		t.Fatal(err)
	}
	named, strays := casesIn(tree)
	if len(strays) != 1 || !strings.Contains(strays[0], "C04") {
		t.Errorf("strays %v", strays)
	}
	for _, id := range []string{"C01", "C02", "C03"} {
		if !slices.Equal(named[id], []string{"cmd/pawl.TestA"}) {
			t.Errorf("%s is named by %v", id, named[id])
		}
	}
	if len(named) != 3 {
		t.Errorf("named are %v", named)
	}
}
