package endtoend

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"
	"time"
)

// units are what durations in the source are made of.
var units = map[string]time.Duration{
	"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
}

// valueOf reads the value of a constant from its source: an int, or a
// time.Duration where its expression names a unit of time.
func valueOf(t *testing.T, path, name string) any {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]ast.Expr{}
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == len(spec.Values) {
			for i, id := range spec.Names {
				known[id.Name] = spec.Values[i]
			}
		}
		return true
	})
	timed := false
	var value func(e ast.Expr) int64
	value = func(e ast.Expr) int64 {
		switch e := e.(type) {
		case *ast.BasicLit:
			if n, err := strconv.ParseInt(e.Value, 0, 64); err == nil {
				return n
			}
		case *ast.Ident:
			if known[e.Name] != nil {
				return value(known[e.Name])
			}
		case *ast.SelectorExpr:
			if unit, ok := units[e.Sel.Name]; ok {
				timed = true
				return int64(unit)
			}
		case *ast.BinaryExpr:
			x, y := value(e.X), value(e.Y)
			switch e.Op {
			case token.ADD:
				return x + y
			case token.SUB:
				return x - y
			case token.MUL:
				return x * y
			case token.SHL:
				return x << y
			}
		}
		t.Fatalf("%s: %s is no constant that this test can read", path, name)
		return 0
	}
	if known[name] == nil {
		t.Fatalf("%s has no constant %s", path, name)
	}
	if n := value(known[name]); timed {
		return time.Duration(n)
	} else {
		return int(n)
	}
}
