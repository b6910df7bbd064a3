package tidy

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// linesMax bounds a file; files beyond it are seams cut too late.
const linesMax = 500

// bytesMax bounds a file of any kind. What is larger was built or recorded, and stays in
// every clone for ever.
const bytesMax = 1 << 20

// bannedWords say nothing about what a thing is, or, like the last, hide the
// question "of what?".
var bannedWords = []string{"manager", "helper", "util", "common", "impl", "owner"}

// testingName is a method of testing.T, which a stand-in for it declares too.
const testingName = "Helper"

func banned(name string) string {
	for _, w := range split(name) {
		w = strings.ToLower(w)
		for _, b := range bannedWords {
			if w == b || w == b+"s" {
				return b
			}
		}
	}
	return ""
}

// split cuts a name into words at capitals, digits and punctuation.
func split(name string) []string {
	var words []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			words = append(words, string(word))
			word = nil
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r):
			afterLower := i > 0 && unicode.IsLower(runes[i-1])
			beforeLower := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if afterLower || beforeLower {
				end()
			}
		}
		word = append(word, r)
	}
	end()
	return words
}

func words(t *Tree) []Finding {
	const rule = "words"
	var found []Finding
	for _, p := range t.Paths {
		if w := banned(p); w != "" {
			found = append(found, Finding{rule, p, 0, "the path holds the banned word " + w})
		}
	}
	for _, f := range t.Files {
		if f.Generated {
			continue
		}
		f.declared(func(id *ast.Ident) {
			if w := banned(id.Name); w != "" && id.Name != testingName {
				found = f.at(found, rule, id.Pos(), "%s holds the banned word %s", id.Name, w)
			}
		})
	}
	return found
}

// declared visits every name that the file declares.
func (f *File) declared(visit func(*ast.Ident)) {
	each := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok {
				visit(id)
			}
		}
	}
	visit(f.AST.Name)
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, id := range n.Names {
				visit(id)
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				visit(id)
			}
		case *ast.ImportSpec:
			if n.Name != nil {
				visit(n.Name)
			}
		case *ast.TypeSpec:
			visit(n.Name)
		case *ast.FuncDecl:
			visit(n.Name)
		case *ast.LabeledStmt:
			visit(n.Label)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				each(n.Lhs...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				each(n.Key, n.Value)
			}
		}
		return true
	})
}

func length(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Files {
		if !f.Generated && f.Lines > linesMax {
			found = append(found, Finding{"length", f.Path, f.Lines, "longer than 500 lines: cut a seam"})
		}
	}
	return found
}

func size(t *Tree) []Finding {
	var found []Finding
	for _, name := range t.Paths {
		if t.Sizes[name] > bytesMax {
			found = append(found, Finding{"size", name, 0, "larger than 1 MiB: build it or fetch it, and let git ignore it"})
		}
	}
	return found
}

func docs(t *Tree) []Finding {
	var found []Finding
	names, dirs := t.byDir()
	for _, dir := range names {
		if slices.ContainsFunc(dirs[dir], func(f *File) bool { return !f.Generated }) || dir == "." {
			i := slices.IndexFunc(dirs[dir], func(f *File) bool { return path.Base(f.Path) == "doc.go" })
			switch {
			case i < 0:
				found = append(found, Finding{"doc", dir, 0, "no doc.go"})
			case dirs[dir][i].AST.Doc == nil:
				found = append(found, Finding{"doc", dirs[dir][i].Path, 0, "no package comment"})
			}
		}
	}
	return found
}

var leftOver = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

func leftOvers(t *Tree) []Finding {
	var found []Finding
	for _, f := range t.Files {
		if f.Generated {
			continue
		}
		for _, group := range f.AST.Comments {
			for _, c := range group.List {
				if w := leftOver.FindString(c.Text); w != "" {
					found = f.at(found, "left-over", c.Pos(), "a comment says %s", w)
				}
			}
		}
	}
	return found
}
