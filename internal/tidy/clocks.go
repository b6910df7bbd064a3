package tidy

import (
	"go/ast"
	"slices"
	"strings"
)

// timeReaders are the names of package time that read the clock or wait for it.
var timeReaders = []string{
	"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until",
}

// unixReaders are those of golang.org/x/sys/unix and syscall.
var unixReaders = []string{
	"ClockGettime", "ClockNanosleep", "Gettimeofday", "Nanosleep", "Sysinfo", "Time", "TimerfdCreate", "TimerfdGettime",
	"TimerfdSettime", "CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "CLOCK_MONOTONIC_RAW", "CLOCK_REALTIME",
}

// clockReaders may read clocks, each for its reason.
var clockReaders = map[string]string{
	"guard/guardtest":          "it is tests",
	"internal/store/storetest": "it is tests",
	"internal/clock":           "it is the reader",
	"internal/testwait":        "it waits for real time on behalf of tests",
	"internal/tidy":            "it names what it looks for",
	"test":                     "tests only",
	"tools":                    "no part of the product",
	"bench":                    "it measures",
}

func clocks(t *Tree) []Finding {
	const rule = "clock"
	var found []Finding
	for _, f := range t.Files {
		if f.Test || f.Generated || within(f.Dir(), clockReaders) {
			continue
		}
		flag := func(sel *ast.SelectorExpr) {
			found = f.at(found, rule, sel.Pos(), "%s.%s: only internal/clock reads clocks; take a clock.Clock", sel.X, sel.Sel.Name)
		}
		f.uses("time", timeReaders, flag)
		f.uses("golang.org/x/sys/unix", unixReaders, flag)
		f.uses("syscall", unixReaders, flag)
	}
	return found
}

// within reports whether dir is one of the folders or lies below one.
func within(dir string, folders map[string]string) bool {
	for {
		if _, ok := folders[dir]; ok {
			return true
		}
		i := strings.LastIndexByte(dir, '/')
		if i < 0 {
			return false
		}
		dir = dir[:i]
	}
}

// waits finds what makes a test wait for real time: a sleep, a receive from
// time.After or time.Tick that stands alone. Inside a function given to
// synctest.Test time is the bubble's and costs nothing.
func waits(t *Tree) []Finding {
	const rule = "wait"
	var found []Finding
	for _, f := range t.Files {
		r, _ := roomOf(f.Dir())
		if !f.Test && !r.aid && r.dir != "test" || f.Dir() == "internal/testwait" {
			continue
		}
		bubbles := f.bubbles()
		check := func(n ast.Node, what string) {
			for _, b := range bubbles {
				if b.Pos() <= n.Pos() && n.Pos() < b.End() {
					return
				}
			}
			if f.exempt[f.line(n.Pos())]["bubble"] {
				return
			}
			found = f.at(found, rule, n.Pos(), "%s waits for real time: poll with internal/testwait, or use synctest", what)
		}
		f.uses("time", []string{"Sleep", "Tick"}, func(sel *ast.SelectorExpr) { check(sel, "time."+sel.Sel.Name) })
		f.loneReceives(func(n ast.Node) { check(n, "a lone receive from time.After") })
	}
	return found
}

// bubbles are the functions given to synctest.Test.
func (f *File) bubbles() []ast.Node {
	var bubbles []ast.Node
	local := f.importName("testing/synctest")
	ast.Inspect(f.AST, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if ok && local != "" && isCallOf(call, local, "Test") {
			for _, arg := range call.Args {
				if lit, ok := arg.(*ast.FuncLit); ok {
					bubbles = append(bubbles, lit)
				}
			}
		}
		return true
	})
	return bubbles
}

// loneReceives visits `<-time.After(d)` where it is a whole statement, so no
// other case can end the wait.
func (f *File) loneReceives(visit func(ast.Node)) {
	local := f.importName("time")
	if local == "" {
		return
	}
	clauses := map[ast.Stmt]bool{}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectStmt:
			for _, c := range n.Body.List {
				// A select of one case is a lone receive in disguise.
				if comm := c.(*ast.CommClause).Comm; len(n.Body.List) > 1 && comm != nil {
					clauses[comm] = true
				}
			}
		case *ast.ExprStmt:
			recv, ok := n.X.(*ast.UnaryExpr)
			if !ok || clauses[n] {
				return true
			}
			if call, ok := recv.X.(*ast.CallExpr); ok && isCallOf(call, local, "After") {
				visit(n)
			}
		}
		return true
	})
}

// isCallOf reports whether call is pkg.name(…) for one of the names.
func isCallOf(call *ast.CallExpr, pkg string, names ...string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg && slices.Contains(names, sel.Sel.Name)
}
