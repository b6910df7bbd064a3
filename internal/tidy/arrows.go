package tidy

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// room is a part of the house: a folder and what lies below it, down to the
// next room. It may import itself and the rooms it names.
type room struct {
	dir string
	may []string
	aid bool // the tests of every room may import it
}

// rooms is the house's plan; arrows point to the quieter room. "*" stands for
// all rooms.
//
// Some arrows are there for words alone: see wordsOnly. The keeper of the log
// (kvlog) imports the clock, as a standby waits by it; the seam above does not.
var rooms = []room{
	{dir: ".", may: []string{"internal/bounds", "api", "internal/authority", "internal/bearer", "internal/protolimit", "internal/infile", "internal/session", "internal/clock", "internal/hook", "internal/dialerr", "guard"}},
	{dir: "api"},
	{dir: "bench", may: []string{"*"}},
	{dir: "cmd", may: []string{
		"internal/bounds",
		".", "internal/link", "internal/access", "internal/authority", "internal/bearer", "internal/protolimit", "internal/infile", "internal/service", "internal/cell", "internal/locktable", "internal/store", "internal/store/memstore",
		"internal/clock", "internal/dialerr", "internal/fencing/table", "internal/hook", "api", "guard", "guard/*", "cmd/pawl/internal/etcdstore",
		"cmd/pawl/internal/client", "cmd/pawl/internal/exit", "cmd/pawl/internal/flags", "cmd/pawl/internal/output",
		"cmd/pawl/internal/rest", "cmd/pawl/internal/signals", "cmd/pawl/internal/supervise", "cmd/pawl/internal/termsafe",
	}},
	{dir: "cmd/pawl/internal/client", may: []string{
		"internal/bounds",
		".", "api", "internal/bearer", "internal/clock", "internal/dialerr", "internal/locktable", "internal/protolimit",
		"cmd/pawl/internal/exit", "cmd/pawl/internal/output", "cmd/pawl/internal/rest", "cmd/pawl/internal/signals",
	}},
	{dir: "cmd/pawl/internal/etcdstore/etcdtest", may: []string{"internal/clock", "internal/testcert", "internal/testport"}, aid: true},
	{dir: "cmd/pawl/internal/etcdstore", may: []string{"internal/authority", "internal/infile", "internal/store", "internal/store/kvlog", "api", "internal/clock", "internal/dialerr"}},
	{dir: "cmd/pawl/internal/exit", may: []string{"internal/bounds", ".", "api", "cmd/pawl/internal/signals", "cmd/pawl/internal/supervise"}},
	{dir: "cmd/pawl/internal/flags", may: []string{"internal/bounds", "internal/clock", "internal/infile", "internal/locktable", "cmd/pawl/internal/exit"}},
	{dir: "cmd/pawl/internal/output", may: []string{"internal/bounds", "cmd/pawl/internal/rest", "cmd/pawl/internal/termsafe"}},
	{dir: "cmd/pawl/internal/rest", may: []string{"internal/wire", "internal/bounds", "internal/access", "internal/service", "internal/cell", "internal/locktable", "api", "internal/clock", "guard"}},
	{dir: "cmd/pawl/internal/signals"},
	{dir: "cmd/pawl/internal/supervise", may: []string{"internal/bounds", "internal/clock", "internal/locktable"}},
	{dir: "cmd/pawl/internal/termsafe"},
	{dir: "guard"},
	{dir: "guard/guardtest", may: []string{"guard"}, aid: true},
	{dir: "guard/objguard/azurebucket", may: []string{"guard", "guard/objguard"}},
	{dir: "guard/objguard/buckettest", may: []string{"guard", "guard/guardtest", "guard/objguard"}, aid: true},
	{dir: "guard/objguard/gcsbucket", may: []string{"guard", "guard/objguard"}},
	{dir: "guard/objguard/probe", may: []string{"guard", "guard/objguard"}},
	{dir: "guard/objguard/s3bucket", may: []string{"guard", "guard/objguard"}},
	{dir: "internal/access"},
	{dir: "internal/fencing", may: []string{"internal/fencing/table"}},
	{dir: "internal/fencing/generate", may: []string{"internal/fencing"}},
	{dir: "internal/fencing/table"},
	{dir: "internal/authority", may: []string{"internal/infile", "internal/clock"}},
	{dir: "internal/bearer", may: []string{"internal/authority", "internal/infile", "internal/clock"}},
	{dir: "internal/bounds"},
	{dir: "internal/step", may: []string{"internal/bounds", "internal/locktable", "internal/store", "api", "internal/clock", "guard"}},
	{dir: "internal/cell", may: []string{
		"internal/bounds", "internal/step",
		"internal/locktable", "internal/store", "api", "internal/clock", "guard",
	}},
	{dir: "internal/clock"},
	{dir: "internal/service", may: []string{"internal/bounds", "internal/access", "internal/cell", "internal/locktable"}},
	{dir: "internal/protolimit", may: []string{"api"}},
	{dir: "internal/hook", may: []string{"internal/clock", "api"}},
	{dir: "internal/infile", may: []string{"internal/clock"}},
	{dir: "internal/link", may: []string{"internal/bounds", "internal/access", "internal/service", "internal/cell", "internal/locktable", "internal/wire", "api", "internal/clock", "guard"}},
	{dir: "internal/locktable", may: []string{"internal/bounds", "api", "guard"}},
	{dir: "internal/dialerr", may: []string{"api"}},
	{dir: "internal/session", may: []string{"internal/bounds", "internal/trust", "api", "internal/clock", "guard"}},
	{dir: "internal/sim", may: []string{
		"internal/bounds",
		"internal/session", "internal/step", "internal/wire",
		"internal/locktable", "internal/cell", "internal/store", "internal/store/kvlog", "internal/store/memstore",
		"internal/trust", "guard", "api", "internal/clock",
	}},
	{dir: "internal/store", may: []string{"api"}},
	{dir: "internal/store/kvlog", may: []string{"internal/store", "api", "internal/clock"}},
	{dir: "internal/store/faulty", may: []string{"internal/store", "internal/store/kvlog", "api", "internal/clock"}, aid: true},
	{dir: "internal/store/memstore", may: []string{
		"internal/store", "internal/store/faulty", "internal/store/kvlog", "api", "internal/clock",
	}, aid: true},
	{dir: "internal/store/storetest", may: []string{
		"internal/store", "internal/store/faulty", "internal/store/kvlog", "api", "internal/clock", "internal/testwait",
	}, aid: true},
	{dir: "internal/testcert", may: []string{"internal/clock"}, aid: true},
	{dir: "internal/testport", aid: true},
	{dir: "internal/testpostgres", aid: true},
	{dir: "internal/testscript", aid: true},
	{dir: "internal/testversity", may: []string{"internal/testpostgres"}, aid: true},
	{dir: "internal/testwait", aid: true},
	{dir: "internal/tidy"},
	{dir: "internal/trust", may: []string{"internal/clock"}},
	{dir: "internal/wire", may: []string{"internal/bounds", "internal/cell", "internal/locktable", "api", "internal/clock", "guard"}},
	{dir: "test", may: []string{"*"}},
	{dir: "pawltest", may: []string{
		".", "internal/link", "internal/cell", "internal/store", "internal/store/memstore", "internal/clock", "internal/hook",
		"api", "guard",
	}, aid: true},
	{dir: "tools"},
}

// wordsOnly are imports of names only: the fronts use the lock table's reasons and
// limits and must not decide; the trust window computes with readings and must not take
// one.
var wordsOnly = []struct {
	from []string
	to   string
	only []string // the names that may be used; nil: all but those of not
	not  []string
}{
	{from: []string{"cmd", "cmd/pawl/internal/client", "cmd/pawl/internal/flags", "cmd/pawl/internal/rest", "cmd/pawl/internal/supervise", "internal/service", "internal/link", "internal/wire"}, to: "internal/locktable", not: []string{"New", "Restore", "Table"}},
	{from: []string{"internal/trust", "internal/session", "internal/wire"}, to: "internal/clock", only: []string{"Reading"}},
}

// wordsTaken finds what a file takes from a room that it may only speak like.
func (f *File) wordsTaken(from room) []Finding {
	var found []Finding
	for _, w := range wordsOnly {
		if f.Test || !slices.Contains(w.from, from.dir) {
			continue
		}
		f.uses(modulePath+"/"+w.to, nil, func(sel *ast.SelectorExpr) {
			if w.only != nil && !slices.Contains(w.only, sel.Sel.Name) || slices.Contains(w.not, sel.Sel.Name) {
				found = f.at(found, "arrows", sel.Pos(), "%s takes only words from %s, not %s", from.dir, w.to, sel.Sel.Name)
			}
		})
	}
	return found
}

// roomOf finds the innermost room of a folder. guard/* gives every guard a room
// of its own.
func roomOf(dir string) (room, bool) {
	for d := dir; ; d = path.Dir(d) {
		for _, r := range rooms {
			if r.dir == d && (d != "." || dir == ".") {
				return r, true
			}
		}
		if rest, ok := strings.CutPrefix(d, "guard/"); ok && !strings.Contains(rest, "/") {
			return room{dir: d, may: []string{"guard"}}, true
		}
		if d == "." {
			return room{}, false
		}
	}
}

func (r room) mayImport(to room, test bool) bool {
	switch {
	case r.dir == to.dir:
		return true
	case to.dir == "test", to.dir == "internal/tidy":
		return false
	case test:
		return to.aid || r.importsIndirectly(to)
	default:
		return r.names(to)
	}
}

// names reports whether an arrow leads from the room to the other.
func (r room) names(to room) bool {
	return slices.ContainsFunc(r.may, func(dir string) bool {
		return dir == "*" || dir == to.dir || dir == "guard/*" && strings.HasPrefix(to.dir, "guard/") && !to.aid
	})
}

// importsIndirectly reports whether one arrow or more lead from the room to the other: a
// test may use the rooms behind those that its own room imports. The plan has no circle.
func (r room) importsIndirectly(to room) bool {
	return r.names(to) || slices.ContainsFunc(r.may, func(dir string) bool {
		next, ok := roomOf(dir)
		return ok && next.importsIndirectly(to)
	})
}

func arrows(t *Tree) []Finding {
	const rule = "arrows"
	var found []Finding
	for _, f := range t.Files {
		from, ok := roomOf(f.Dir())
		if !ok {
			found = f.at(found, rule, f.AST.Package, "the plan in internal/tidy has no room for %s", f.Dir())
			continue
		}
		for _, spec := range f.AST.Imports {
			pkg := strings.Trim(spec.Path.Value, `"`)
			if pkg != modulePath && !strings.HasPrefix(pkg, modulePath+"/") {
				continue
			}
			dir := strings.TrimPrefix(strings.TrimPrefix(pkg, modulePath), "/")
			if dir == "" {
				dir = "."
			}
			to, ok := roomOf(dir)
			if !ok || !from.mayImport(to, f.Test) {
				found = f.at(found, rule, spec.Pos(), "%s may not import %s", from.dir, dir)
			}
		}
		found = append(found, f.wordsTaken(from)...)
	}
	return found
}
