package tidy

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"path"
	"slices"
	"strings"
)

// public reports whether users import the packages of a folder.
func public(dir string) bool {
	for part := range strings.SplitSeq(dir, "/") {
		if part == "internal" || part == "testdata" {
			return false
		}
	}
	switch first, _, _ := strings.Cut(dir, "/"); first {
	case "api", "bench", "cmd", "docs", "scripts", "test", "tools":
		return false
	}
	return true
}

// api lists what a package exports, one declaration after the other, sorted,
// without comments and bodies. "" when it exports nothing.
func api(files []*File) string {
	var decls []string
	for _, f := range files {
		if f.Test || f.Generated || f.AST.Name.Name == "main" {
			continue
		}
		for _, d := range f.AST.Decls {
			decls = append(decls, exported(d)...)
		}
	}
	slices.Sort(decls)
	decls = slices.Compact(decls) // one name, declared per system
	if len(decls) == 0 {
		return ""
	}
	return strings.Join(decls, "\n") + "\n"
}

func exported(d ast.Decl) []string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !d.Name.IsExported() || d.Recv != nil && !ast.IsExported(receiver(d.Recv.List[0].Type)) {
			return nil
		}
		sig := *d
		sig.Doc, sig.Body = nil, nil
		return []string{source(&sig)}
	case *ast.GenDecl:
		var texts []string
		for _, spec := range d.Specs {
			if text := exportedSpec(spec); text != "" {
				texts = append(texts, d.Tok.String()+" "+text)
			}
		}
		return texts
	}
	return nil
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func exportedSpec(spec ast.Spec) string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if !spec.Name.IsExported() {
			return ""
		}
		t := *spec
		t.Doc, t.Comment = nil, nil
		t.Type = trim(t.Type)
		return source(&ast.GenDecl{Tok: token.TYPE, Specs: []ast.Spec{&t}})[len("type "):]
	case *ast.ValueSpec:
		var names []string
		for _, id := range spec.Names {
			if id.IsExported() {
				names = append(names, id.Name)
			}
		}
		if len(names) == 0 {
			return ""
		}
		text := strings.Join(names, ", ")
		if spec.Type != nil {
			text += " " + source(spec.Type)
		}
		return text
	}
	return ""
}

// trim takes out of a type what is not exported, and comments.
func trim(e ast.Expr) ast.Expr {
	switch e := e.(type) {
	case *ast.StructType:
		return &ast.StructType{Fields: trimFields(e.Fields)}
	case *ast.InterfaceType:
		return &ast.InterfaceType{Methods: trimFields(e.Methods)}
	}
	return e
}

func trimFields(list *ast.FieldList) *ast.FieldList {
	kept := &ast.FieldList{}
	hidden := false
	for _, f := range list.List {
		var names []*ast.Ident
		for _, id := range f.Names {
			if id.IsExported() {
				names = append(names, ast.NewIdent(id.Name))
			} else {
				hidden = true
			}
		}
		embedded := len(f.Names) == 0 && (receiver(f.Type) == "" || ast.IsExported(receiver(f.Type)) || receiver(f.Type) == "error")
		if len(names) > 0 || embedded {
			kept.List = append(kept.List, &ast.Field{Names: names, Type: trim(f.Type), Tag: f.Tag})
		} else if len(f.Names) == 0 {
			hidden = true
		}
	}
	if hidden {
		// A struct with hidden fields is no longer comparable or convertible by
		// what is seen of it: its users notice when the first one comes.
		kept.List = append(kept.List, &ast.Field{Names: []*ast.Ident{ast.NewIdent("_")}, Type: ast.NewIdent("hidden")})
	}
	return kept
}

// source prints a node without positions, so that comments and empty lines of
// the file it came from do not show.
func source(n ast.Node) string {
	var out bytes.Buffer
	if err := format.Node(&out, token.NewFileSet(), n); err != nil {
		return fmt.Sprintf("unprintable %T: %v", n, err)
	}
	return out.String()
}

// apiFile is where the listing of a package's names is recorded.
func apiFile(dir string) string { return path.Join(dir, "api.golden") }
