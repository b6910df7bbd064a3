package tidy

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// pureFiles are the patterns, for path.Match, of what must be a function of its
// input alone.
var pureFiles = []string{"internal/locktable/*.go", "internal/trust/*.go", "internal/session/*.go", "internal/wire/*.go", "internal/cell/step*.go", "internal/cell/usable.go"}

// impureImports reach for something that differs from run to run.
var impureImports = []string{
	"crypto/rand", "hash/maphash", "math/rand", "math/rand/v2", "net", "os", "runtime", "sync", "sync/atomic", "syscall",
	"golang.org/x/sys/unix",
}

func isPure(f *File) bool {
	return !f.Test && slices.ContainsFunc(pureFiles, func(pattern string) bool {
		ok, _ := path.Match(pattern, f.Path)
		return ok
	})
}

func pure(t *Tree) []Finding {
	const rule = "pure"
	var found []Finding
	names, dirs := t.byDir()
	for _, dir := range names {
		files := dirs[dir]
		if !slices.ContainsFunc(files, isPure) {
			if slices.ContainsFunc(pureFiles, func(p string) bool { return path.Dir(p) == dir }) {
				found = append(found, Finding{rule, dir, 0, "no file here is held to be pure, and some must be"})
			}
			continue
		}
		info, err := t.check(dir, files)
		if err != nil {
			found = append(found, Finding{rule, dir, 0, err.Error()})
			continue
		}
		for _, f := range files {
			if isPure(f) {
				found = append(found, f.impurities(info)...)
				found = append(found, f.calledOutside(dir, files, info)...)
			}
		}
	}
	return found
}

// check finds the types of a package; what it cannot find stays unknown, and
// unknown is held against the package.
func (t *Tree) check(dir string, files []*File) (*types.Info, error) {
	var asts []*ast.File
	var imports []string
	for _, f := range files {
		if f.Test || !builds(t.Root, f) {
			continue
		}
		asts = append(asts, f.AST)
		for _, spec := range f.AST.Imports {
			imports = append(imports, strings.Trim(spec.Path.Value, `"`))
		}
	}
	lookup, err := exports(t.Root, imports)
	if err != nil {
		return nil, err
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}}
	var wrong []error
	conf := types.Config{
		Importer: importer.ForCompiler(t.fset, "gc", lookup),
		Error:    func(err error) { wrong = append(wrong, err) },
	}
	_, _ = conf.Check(modulePath+"/"+dir, t.fset, asts, info)
	return info, errors.Join(wrong...)
}

// builds reports whether the file is compiled on this system.
func builds(root string, f *File) bool {
	if root == "" {
		return true // a planted tree
	}
	ok, err := build.Default.MatchFile(filepath.Join(root, filepath.FromSlash(f.Dir())), path.Base(f.Path))
	return ok && err == nil
}

// exports finds the compiled form of packages and what they import.
func exports(root string, pkgs []string) (func(string) (io.ReadCloser, error), error) {
	slices.Sort(pkgs)
	pkgs = slices.Compact(pkgs)
	files := map[string]string{}
	if len(pkgs) > 0 {
		cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "--"}, pkgs...)...)
		cmd.Dir = root
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("list compiled packages: %w", err)
		}
		for line := range strings.Lines(string(out)) {
			pkg, file, _ := strings.Cut(strings.TrimSpace(line), " ")
			files[pkg] = file
		}
	}
	return func(pkg string) (io.ReadCloser, error) {
		if files[pkg] == "" {
			return nil, fmt.Errorf("no compiled form of %s", pkg)
		}
		return os.Open(files[pkg])
	}, nil
}

func (f *File) impurities(info *types.Info) []Finding {
	const rule = "pure"
	var found []Finding
	for _, spec := range f.AST.Imports {
		pkg := strings.Trim(spec.Path.Value, `"`)
		if slices.Contains(impureImports, pkg) {
			found = f.at(found, rule, spec.Pos(), "imports %s", pkg)
		}
		if spec.Name != nil && spec.Name.Name == "." {
			found = f.at(found, rule, spec.Pos(), "imports %s without a name, which hides what it uses", pkg)
		}
	}
	f.uses("time", timeReaders, func(sel *ast.SelectorExpr) {
		found = f.at(found, rule, sel.Pos(), "time.%s: time is an argument here", sel.Sel.Name)
	})
	f.uses("context", []string{"AfterFunc", "WithDeadline", "WithDeadlineCause", "WithTimeout", "WithTimeoutCause"}, func(sel *ast.SelectorExpr) {
		found = f.at(found, rule, sel.Pos(), "context.%s: time is an argument here", sel.Sel.Name)
	})
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = f.at(found, rule, n.Pos(), "starts a goroutine")
		case *ast.SelectStmt:
			found = f.at(found, rule, n.Pos(), "select chooses at random")
		case *ast.SendStmt:
			found = f.at(found, rule, n.Pos(), "sends on a channel")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				found = f.at(found, rule, n.Pos(), "receives from a channel")
			}
		}
		return true
	})
	for _, pos := range f.unordered(info) {
		found = f.at(found, "unordered", pos, "ranges over a map in the order that Go draws: collect and sort, or say why order is of no matter")
	}
	return found
}

// calledOutside finds uses of the package's own functions and variables that
// lie in files not held to be pure: what they do would be the step's doing.
func (f *File) calledOutside(dir string, files []*File, info *types.Info) []Finding {
	held := map[string]bool{}
	for _, other := range files {
		held[other.Path] = isPure(other)
	}
	var found []Finding
	ast.Inspect(f.AST, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		obj := info.Uses[id]
		if obj == nil || obj.Pkg() == nil || obj.Pkg().Path() != modulePath+"/"+dir {
			return true
		}
		global := obj.Parent() == obj.Pkg().Scope()
		switch obj := obj.(type) {
		case *types.Func:
			if types.IsInterface(receiverOf(obj)) {
				return true
			}
		case *types.Var:
			if !global {
				return true
			}
		default:
			return true
		}
		if file := f.fset.Position(obj.Pos()).Filename; !held[file] {
			found = f.at(found, "pure", id.Pos(), "uses %s, which lies in %s and is not held to be pure", id.Name, path.Base(file))
		}
		return true
	})
	return found
}

// receiverOf is the type whose method it is, or no interface for a function.
func receiverOf(fn *types.Func) types.Type {
	if recv := fn.Signature().Recv(); recv != nil {
		return recv.Type()
	}
	return types.Typ[types.Invalid]
}
