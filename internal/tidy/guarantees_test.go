package tidy

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	guaranteeRow = regexp.MustCompile(`(?m)^\| (I[0-9]+) \|.*\| ([^|]*) \|$`)
	namedTest    = regexp.MustCompile("`([a-z/]+)\\.(Test[A-Za-z0-9]+)`")
)

// Each guarantee names tests, and there are tests of these names.
func TestGuaranteesNameTheirTests(t *testing.T) {
	tree := load(t)
	there := map[string]bool{}
	for _, f := range tree.Files {
		if !f.Test {
			continue
		}
		for _, d := range f.AST.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				there[f.Dir()+"."+fn.Name.Name] = true
			}
		}
	}
	var rows []string
	for _, row := range guaranteeRow.FindAllStringSubmatch(read(t, tree, "GUARANTEES.md"), -1) {
		rows = append(rows, row[1])
		tests := namedTest.FindAllStringSubmatch(row[2], -1)
		if len(tests) == 0 {
			t.Errorf("%s names no test", row[1])
		}
		for _, m := range tests {
			if !there[m[1]+"."+m[2]] {
				t.Errorf("%s names %s in %s, which is not there", row[1], m[2], m[1])
			}
		}
	}
	var all []string
	for n := range 10 {
		all = append(all, fmt.Sprintf("I%d", n+1))
	}
	if !slices.Equal(rows, all) {
		t.Errorf("the guarantees are %v, expected %v", rows, all)
	}
}
