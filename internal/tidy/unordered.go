package tidy

import (
	"go/ast"
	"go/token"
	"go/types"
)

// sorters bring elements in order, by package.
var sorters = map[string][]string{
	"slices": {"Sort", "SortFunc", "SortStableFunc", "Sorted", "SortedFunc", "SortedStableFunc"},
	"sort":   {"Slice", "SliceStable", "Sort", "Stable", "Strings", "Ints"},
}

// unordered finds the places that go through a map in the order that Go draws.
// Three forms are in order: ranging over nothing but the count (`for range m`),
// a loop that only collects into a slice which the next statement sorts, and
// maps.Keys or maps.Values given to slices.Sorted.
func (f *File) unordered(info *types.Info) []token.Pos {
	var at []token.Pos
	sorted := f.sortedLoops()
	ordered := f.orderedIterators()
	maps := f.importName("maps")
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if mayBeMap(info.Types[n.X].Type) && !sorted[n] && !(n.Key == nil && n.Value == nil) {
				at = append(at, n.Pos())
			}
		case *ast.CallExpr:
			if maps != "" && isCallOf(n, maps, "All", "Keys", "Values") && !ordered[n] {
				at = append(at, n.Pos())
			}
		}
		return true
	})
	return at
}

// mayBeMap holds an unknown type to be one, and a type parameter whose types
// include one.
func mayBeMap(t types.Type) bool {
	if t == nil {
		return true
	}
	switch u := t.Underlying().(type) {
	case *types.Map:
		return true
	case *types.Basic:
		return u.Kind() == types.Invalid
	case *types.Interface: // the constraint of a type parameter
		return true
	}
	return false
}

// orderedIterators are the calls that stand directly in a call of a sorter.
func (f *File) orderedIterators() map[*ast.CallExpr]bool {
	ordered := map[*ast.CallExpr]bool{}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && f.sorts(call) {
			for _, arg := range call.Args {
				if inner, ok := arg.(*ast.CallExpr); ok {
					ordered[inner] = true
				}
			}
		}
		return true
	})
	return ordered
}

func (f *File) sorts(call *ast.CallExpr) bool {
	for pkg, names := range sorters {
		if local := f.importName(pkg); local != "" && isCallOf(call, local, names...) {
			return true
		}
	}
	return false
}

// sortedLoops are the loops that do nothing but `xs = append(xs, …)`, perhaps
// under an if, and are followed at once by a sort of xs.
func (f *File) sortedLoops() map[*ast.RangeStmt]bool {
	sorted := map[*ast.RangeStmt]bool{}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		var list []ast.Stmt
		switch n := n.(type) {
		case *ast.BlockStmt:
			list = n.List
		case *ast.CaseClause:
			list = n.Body
		}
		for i := 0; i+1 < len(list); i++ {
			loop, ok := list[i].(*ast.RangeStmt)
			if !ok {
				continue
			}
			xs := collects(loop.Body.List)
			if xs != "" && f.sortsFirst(list[i+1], xs) {
				sorted[loop] = true
			}
		}
		return true
	})
	return sorted
}

// collects names the one slice that the statements append to, "" when they do
// anything else.
func collects(stmts []ast.Stmt) string {
	if len(stmts) != 1 {
		return ""
	}
	if cond, ok := stmts[0].(*ast.IfStmt); ok && cond.Else == nil && cond.Init == nil {
		return collects(cond.Body.List)
	}
	assign, ok := stmts[0].(*ast.AssignStmt)
	if !ok || assign.Tok != token.ASSIGN || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
		return ""
	}
	xs, ok := assign.Lhs[0].(*ast.Ident)
	if !ok {
		return ""
	}
	call, ok := assign.Rhs[0].(*ast.CallExpr)
	if !ok || len(call.Args) < 2 {
		return ""
	}
	fun, ok := call.Fun.(*ast.Ident)
	first, ok2 := call.Args[0].(*ast.Ident)
	if !ok || !ok2 || fun.Name != "append" || first.Name != xs.Name {
		return ""
	}
	return xs.Name
}

func (f *File) sortsFirst(stmt ast.Stmt, xs string) bool {
	expr, ok := stmt.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := expr.X.(*ast.CallExpr)
	if !ok || !f.sorts(call) || len(call.Args) == 0 {
		return false
	}
	arg := call.Args[0]
	if conv, ok := arg.(*ast.CallExpr); ok && len(conv.Args) == 1 {
		arg = conv.Args[0] // sort.Sort(byName(xs))
	}
	id, ok := arg.(*ast.Ident)
	return ok && id.Name == xs
}
