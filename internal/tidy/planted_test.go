package tidy

import (
	"maps"
	"strings"
	"testing"
)

// planted is one small breach of a rule, or what looks like one and is none.
type planted struct {
	name    string
	rule    string
	sources map[string]string
	want    string // part of the one finding; "": none
}

const pureHead = "// Package locktable is pure.\npackage locktable\n\n"

// table plants the body in the lock table.
func table(body string) map[string]string {
	return map[string]string{"internal/locktable/doc.go": pureHead, "internal/locktable/a.go": "package locktable\n\n" + body}
}

func one(name, src string) map[string]string { return map[string]string{name: src} }

var plants = []planted{
	{"guard imports the SDK", "arrows", one("guard/a.go", "package guard\nimport _ \"github.com/pawlproject/pawl\"\n"), "guard may not import ."},
	{"one guard imports another", "arrows", one("guard/pgguard/a.go", "package pgguard\nimport _ \"github.com/pawlproject/pawl/guard/sqlguard\"\n"), "guard/pgguard may not import guard/sqlguard"},
	{"the SDK imports the cell", "arrows", one("a.go", "package pawl\nimport _ \"github.com/pawlproject/pawl/internal/cell\"\n"), ". may not import internal/cell"},
	{"the cell imports memstore", "arrows", one("internal/cell/a.go", "package cell\nimport _ \"github.com/pawlproject/pawl/internal/store/memstore\"\n"), "internal/cell may not import"},
	{"a test of the cell imports the SDK", "arrows", one("internal/cell/a_test.go", "package cell\nimport _ \"github.com/pawlproject/pawl\"\n"), "internal/cell may not import ."},
	{"the product imports the test module", "arrows", one("cmd/pawl/a.go", "package main\nimport _ \"github.com/pawlproject/pawl/test\"\n"), "may not import test"},
	{"a front drives the lock table", "arrows", one("cmd/pawl/internal/rest/a.go", "package rest\nimport \"github.com/pawlproject/pawl/internal/locktable\"\nvar _ locktable.Table\n"), "takes only words"},
	{"a front speaks the lock table's words", "arrows", one("cmd/pawl/internal/rest/a.go", "package rest\nimport \"github.com/pawlproject/pawl/internal/locktable\"\nvar _ locktable.Reason\n"), ""},
	{"the trust window takes a clock", "arrows", one("internal/trust/a.go", "package trust\nimport \"github.com/pawlproject/pawl/internal/clock\"\nvar _ clock.Clock\n"), "takes only words"},
	{"the trust window computes with readings", "arrows", one("internal/trust/a.go", "package trust\nimport \"github.com/pawlproject/pawl/internal/clock\"\nvar _ clock.Reading\n"), ""},
	{"a room nobody planned", "arrows", one("internal/misc/a.go", "package misc\n"), "no room for internal/misc"},
	{"a test of the cell imports memstore", "arrows", one("internal/cell/a_test.go", "package cell\nimport _ \"github.com/pawlproject/pawl/internal/store/memstore\"\n"), ""},
	{"a test of the link looks behind the cell", "arrows", one("internal/link/a_test.go", "package link\nimport _ \"github.com/pawlproject/pawl/internal/store\"\n"), ""},
	{"the link looks behind the cell", "arrows", one("internal/link/a.go", "package link\nimport _ \"github.com/pawlproject/pawl/internal/store\"\n"), "internal/link may not import internal/store"},
	{"a guard imports guard", "arrows", one("guard/pgguard/a.go", "package pgguard\nimport _ \"github.com/pawlproject/pawl/guard\"\n"), ""},
	{"somebody else's package with our beginning", "arrows", one("guard/a.go", "package guard\nimport _ \"github.com/pawlproject/pawls\"\n"), ""},

	{"the table reads the clock", "pure", table("import \"time\"\n\nfunc f() time.Time { return time.Now() }\n"), "time.Now"},
	{"the table reads the clock by another name", "pure", table("import t \"time\"\n\nvar _ = t.Since\n"), "time.Since"},
	{"the table waits under a context", "pure", table("import \"context\"\n\nvar _ = context.WithTimeout\n"), "context.WithTimeout"},
	{"the table draws at random", "pure", table("import \"math/rand/v2\"\n\nvar _ = rand.Int\n"), "imports math/rand/v2"},
	{"the table starts a goroutine", "pure", table("func f() { go f() }\n"), "starts a goroutine"},
	{"the table selects", "pure", table("func f() { select {} }\n"), "select"},
	{"the table ranges over a map", "pure", table("func f(m map[int]int) (s []int) {\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\treturn s\n}\n"), "ranges over a map"},
	{"the table ranges over a named map", "pure", table("type set map[int]bool\n\nfunc f(m set) {\n\tfor k := range m {\n\t\tprintln(k)\n\t}\n}\n"), "ranges over a map"},
	{"the table ranges over a map of a type parameter", "pure", table("func f[M ~map[int]int](m M) {\n\tfor k := range m {\n\t\tprintln(k)\n\t}\n}\n"), "ranges over a map"},
	{"the table iterates over keys", "pure", table("import \"maps\"\n\nfunc f(m map[int]int) {\n\tfor k := range maps.Keys(m) {\n\t\tprintln(k)\n\t}\n}\n"), "ranges over a map"},
	{"the table sorts something else", "pure", table("import \"slices\"\n\nfunc f(m map[int]int, o []int) (s []int) {\n\tfor k := range m {\n\t\ts = append(s, k)\n\t}\n\tslices.Sort(o)\n\treturn s\n}\n"), "ranges over a map"},
	{"an exemption without a reason", "pure", table("func f(m map[int]int) (n int) {\n\t//tidy:unordered\n\tfor _, v := range m {\n\t\tn += v\n\t}\n\treturn n\n}\n"), "ranges over a map"},
	{"the step reads the clock", "pure", map[string]string{"internal/step/grant.go": "package step\nimport \"time\"\nvar _ = time.Now\n"}, "time.Now"},
	{"what does not compile", "pure", table("var x undefinedType\n"), "undefinedType"},
	{"the table collects and sorts", "pure", table("import \"slices\"\n\nfunc f(m map[int]int) (s []int) {\n\tfor k, v := range m {\n\t\tif v > 0 {\n\t\t\ts = append(s, k)\n\t\t}\n\t}\n\tslices.Sort(s)\n\treturn s\n}\n"), ""},
	{"the table sorts keys", "pure", table("import (\n\t\"maps\"\n\t\"slices\"\n)\n\nfunc f(m map[int]int) []int { return slices.Sorted(maps.Keys(m)) }\n"), ""},
	{"a reason", "pure", table("func f(m map[int]int) (n int) {\n\t//tidy:unordered a sum\n\tfor _, v := range m {\n\t\tn += v\n\t}\n\treturn n\n}\n"), ""},
	{"a slice and a channel type", "pure", table("import \"time\"\n\nfunc f(s []time.Duration) (n time.Duration) {\n\tfor _, v := range s {\n\t\tn += v\n\t}\n\treturn n\n}\n"), ""},
	{"the cell's loop", "pure", map[string]string{"internal/step/step.go": "package step\n", "internal/cell/run.go": "package cell\n\nfunc f() { go f() }\n"}, ""},

	{"the cell reads the clock", "clock", one("internal/cell/a.go", "package cell\nimport \"time\"\nvar _ = time.Now\n"), "time.Now"},
	{"a timerfd of one's own", "clock", one("a.go", "package pawl\nimport \"golang.org/x/sys/unix\"\nvar _ = unix.TimerfdCreate\n"), "unix.TimerfdCreate"},
	{"the clock reads the clock", "clock", one("internal/clock/a.go", "package clock\nimport \"time\"\nvar _ = time.Now\n"), ""},
	{"a duration", "clock", one("a.go", "package pawl\nimport \"time\"\nvar _ = time.Second\n"), ""},
	{"a reason for a clock", "clock", one("a.go", "package pawl\nimport \"time\"\nvar _ = time.Now //tidy:clock a label\n"), ""},

	{"a test sleeps", "wait", one("a_test.go", "package pawl\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"), "time.Sleep"},
	{"a test waits in a receive", "wait", one("a_test.go", "package pawl\nimport \"time\"\nfunc f() { <-time.After(1) }\n"), "lone receive"},
	{"a test waits in a select of one", "wait", one("a_test.go", "package pawl\nimport \"time\"\nfunc f() {\n\tselect {\n\tcase <-time.After(1):\n\t}\n}\n"), "lone receive"},
	{"a conformance suite sleeps", "wait", one("internal/store/storetest/a.go", "package storetest\nimport \"time\"\nfunc f() { time.Sleep(1) }\n"), "time.Sleep"},
	{"a bubble sleeps", "wait", one("a_test.go", "package pawl\nimport (\n\t\"testing\"\n\t\"testing/synctest\"\n\t\"time\"\n)\nfunc f(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }\n"), ""},
	{"a bound", "wait", one("a_test.go", "package pawl\nimport \"time\"\nfunc f(c chan int) {\n\tselect {\n\tcase <-c:\n\tcase <-time.After(1):\n\t}\n}\n"), ""},

	{"a banned type", "words", one("a.go", "package pawl\ntype leaseManager struct{}\n"), "manager"},
	{"a banned plural of a local name", "words", one("a.go", "package pawl\nfunc f() { owners := 1; _ = owners }\n"), "owner"},
	{"a banned file", "words", one("utils.go", "package pawl\n"), "util"},
	{"a banned folder without Go", "words", one("docs/common/a.md", ""), "common"},
	{"a word that only holds one", "words", one("a.go", "package pawl\nvar uncommonlyUtilised = 1\n"), ""},
	{"a stand-in for testing.T", "words", one("a_test.go", "package pawl\ntype t interface{ Helper() }\n"), ""},
	{"a method of somebody else", "words", one("a_test.go", "package pawl\nimport \"testing\"\nfunc f(t *testing.T) { t.Helper() }\n"), ""},

	{"a built program", "size", one("cmd/pawl/pawl", strings.Repeat("x", bytesMax+1)), "larger"},
	{"the largest file", "size", one("docs/picture.svg", strings.Repeat("x", bytesMax)), ""},
	{"a long file", "length", one("a.go", "package pawl\n"+strings.Repeat("\n", linesMax)), "longer"},
	{"a long generated file", "length", one("a.pb.go", "// Code generated by x. DO NOT EDIT.\n\npackage pawl\n"+strings.Repeat("\n", linesMax)), ""},
	{"no doc.go", "doc", one("a.go", "package pawl\n"), "no doc.go"},
	{"an empty doc.go", "doc", one("doc.go", "package pawl\n"), "no package comment"},
	{"a doc.go", "doc", one("doc.go", "// Package pawl is.\npackage pawl\n"), ""},
	{"a dead link", "links", one("docs/a.md", "see [b](b.md#x)"), "b.md is not there"},
	{"living links", "links", map[string]string{"docs/a.md": "[b](../b.md#x) [c](../docs) [d](https://go.dev) [e](#f)\n```\n[x](y)\n```\n", "b.md": ""}, ""},
	{"work left over", "left-over", one("a.go", "package pawl\n\n// TO"+"DO: later\n"), "a comment says"},
}

func TestRulesCatchPlantedViolations(t *testing.T) {
	find := map[string]func(*Tree) []Finding{}
	missed := map[string]bool{}
	for _, r := range rules {
		find[r.Name] = r.Find
		missed[r.Name] = true
	}
	for _, p := range plants {
		if p.want != "" {
			delete(missed, p.rule)
		}
		t.Run(p.rule+"/"+p.name, func(t *testing.T) {
			sources := map[string][]byte{}
			for name, src := range p.sources {
				sources[name] = []byte(src)
			}
			tree, err := Parse(sources)
			if err != nil {
				t.Fatal(err)
			}
			found := find[p.rule](tree)
			switch {
			case p.want == "" && len(found) > 0:
				t.Errorf("found %v, want nothing", found)
			case p.want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), p.want)):
				t.Errorf("found %v, want one with %q", found, p.want)
			}
		})
	}
	for rule := range maps.Keys(missed) {
		t.Errorf("nothing is planted that %s must catch", rule)
	}
}

func TestModulesCatchPlantedViolations(t *testing.T) {
	const (
		work  = "go 1.26\n\nuse ./guard\n\nreplace github.com/pawlproject/pawl/guard v0.0.0 => ./guard\n"
		guard = "module github.com/pawlproject/pawl/guard\n\ngo 1.26\n"
	)
	tests := []struct{ name, file, mod, work, want string }{
		{"in order", "guard/go.mod", guard, work, ""},
		{"a replace", "guard/go.mod", guard + "\nreplace a => b\n", work, "holds a replace"},
		{"a replace in a block", "guard/go.mod", guard + "\nreplace (\n\ta => b\n)\n", work, "holds a replace"},
		{"a toolchain", "guard/go.mod", guard + "\ntoolchain go1.26.8\n", work, "toolchain"},
		{"another Go", "guard/go.mod", strings.Replace(guard, "1.26", "1.27", 1), work, "is not go 1.26"},
		{"a patch release", "guard/go.mod", strings.Replace(guard, "1.26", "1.26.7", 1), work, "patch release"},
		{"a requirement", "guard/go.mod", guard + "\nrequire example.com/a v1.0.0\n", work, "may not require example.com/a"},
		{"a requirement in a block", "guard/go.mod", guard + "\nrequire (\n\texample.com/a v1.0.0 // indirect\n)\n", work, "not even indirectly"},
		{"a version of our own", "test/go.mod", "module github.com/pawlproject/pawl/test\n\ngo 1.26\n\nrequire github.com/pawlproject/pawl v0.1.0\n", "use ./test\nreplace github.com/pawlproject/pawl/test v0.0.0 => ./test\n", "not at v0.0.0"},
		{"not used", "guard/go.mod", guard, strings.Replace(work, "use ./guard", "", 1), "does not use ./guard"},
		{"not replaced", "guard/go.mod", guard, "use ./guard\n", "does not replace"},
		{"tools in the workspace", "tools/go.mod", "module github.com/pawlproject/pawl/tools\n\ngo 1.26\n", "use (\n\t./tools\n)\n", "take it out"},
		{"a module nobody planned", "extra/go.mod", "module github.com/pawlproject/pawl/extra\n\ngo 1.26\n", "", "does not know"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			found := modules(map[string]string{test.file: test.mod}, test.work)
			switch {
			case test.want == "" && len(found) > 0:
				t.Errorf("found %v, want nothing", found)
			case test.want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), test.want)):
				t.Errorf("found %v, want one with %q", found, test.want)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	for name, want := range map[string]string{
		"leaseManager": "lease Manager",
		"HTTPUtil":     "HTTP Util",
		"a_b/c-d.go":   "a b c d go",
		"util2":        "util",
		"owner":        "owner",
	} {
		if got := strings.Join(split(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
