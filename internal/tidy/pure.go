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

// purePackages must be functions of their input alone.
var purePackages = []string{"internal/locktable", "internal/session", "internal/step", "internal/trust", "internal/wire"}

// impureImports reach for something that differs from run to run.
var impureImports = []string{
	"crypto/rand", "hash/maphash", "math/rand", "math/rand/v2", "net", "os", "runtime", "sync", "sync/atomic", "syscall",
	"golang.org/x/sys/unix",
}

func pure(t *Tree) []Finding {
	const rule = "pure"
	var found []Finding
	_, dirs := t.byDir()
	for _, dir := range purePackages {
		files := dirs[dir]
		if len(files) == 0 {
			if t.Root != "" {
				found = append(found, Finding{rule, dir, 0, "there is no such package to hold pure"})
			}
			continue
		}
		info, err := t.check(dir, files)
		if err != nil {
			found = append(found, Finding{rule, dir, 0, err.Error()})
			continue
		}
		for _, f := range files {
			if !f.Test {
				found = append(found, f.impurities(info)...)
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
