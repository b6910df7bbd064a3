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
	there := testsIn(tree)
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

// testsIn are the tests of a tree, by folder and name.
func testsIn(tree *Tree) map[string]bool {
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
	return there
}

var testWord = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")

// What docs/etcd.md says of failures is tested where it says.
func TestEtcdFailuresNameTheirTests(t *testing.T) {
	tree := load(t)
	there := testsIn(tree)
	words := testWord.FindAllStringSubmatch(read(t, tree, "docs/etcd.md"), -1)
	if len(words) < 10 {
		t.Errorf("%d tests are named", len(words))
	}
	for _, m := range words {
		if !there["cmd/pawl/internal/etcdstore."+m[1]] && !there["cmd/pawl/internal/endtoend."+m[1]] {
			t.Errorf("%s is named, and is not there", m[1])
		}
	}
}
