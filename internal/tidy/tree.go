package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// modulePath is the root module's; every package of ours lies below it.
const modulePath = "github.com/pawlproject/pawl"

// File is one Go file of the tree.
type File struct {
	Path      string // from the root, with slashes
	Lines     int
	Generated bool
	Test      bool // a _test.go file
	AST       *ast.File
	fset      *token.FileSet
	exempt    map[int]map[string]bool // by line: the rules it is exempt from
}

// Dir is the folder of the file, "." for the root.
func (f *File) Dir() string { return path.Dir(f.Path) }

func (f *File) line(p token.Pos) int { return f.fset.Position(p).Line }

// Tree is what the rules look at.
type Tree struct {
	Root  string
	Paths []string          // all files, Go or not
	Files []*File           // the Go files
	Docs  map[string]string // the .md files
	Sizes map[string]int    // of all files, in bytes
	fset  *token.FileSet
}

// Finding is one breach of a rule.
type Finding struct {
	Rule string
	Path string
	Line int // 0: the file as a whole
	What string
}

func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s: %s", f.Path, f.Rule, f.What)
	}
	return fmt.Sprintf("%s:%d: %s: %s", f.Path, f.Line, f.Rule, f.What)
}

// Rule looks at a tree and says what breaks it.
type Rule struct {
	Name string
	Find func(*Tree) []Finding
}

// at makes a finding unless the line is exempt from the rule.
func (f *File) at(found []Finding, rule string, p token.Pos, format string, args ...any) []Finding {
	line := f.line(p)
	if f.exempt[line][rule] {
		return found
	}
	return append(found, Finding{rule, f.Path, line, fmt.Sprintf(format, args...)})
}

// Load reads what git knows or could be told of below root.
func Load(root string) (*Tree, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	sources := map[string][]byte{}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		src, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // deleted, and git not yet told
		}
		if err != nil {
			return nil, fmt.Errorf("read source: %w", err)
		}
		sources[name] = src
	}
	tree, err := Parse(sources)
	if err != nil {
		return nil, err
	}
	tree.Root = root
	return tree, nil
}

// Parse makes a tree of the sources, by path.
func Parse(sources map[string][]byte) (*Tree, error) {
	tree := &Tree{fset: token.NewFileSet(), Docs: map[string]string{}, Sizes: map[string]int{}}
	for name, src := range sources {
		tree.Paths = append(tree.Paths, name)
		tree.Sizes[name] = len(src)
		if path.Ext(name) == ".md" {
			tree.Docs[name] = string(src)
		}
		if path.Ext(name) != ".go" || strings.Contains(name, "testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(tree.fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse: %w", err)
		}
		file := &File{
			Path:      name,
			Lines:     strings.Count(string(src), "\n"),
			Generated: ast.IsGenerated(parsed),
			Test:      strings.HasSuffix(name, "_test.go"),
			AST:       parsed,
			fset:      tree.fset,
		}
		file.readExemptions()
		tree.Files = append(tree.Files, file)
	}
	slices.Sort(tree.Paths)
	slices.SortFunc(tree.Files, func(a, b *File) int { return strings.Compare(a.Path, b.Path) })
	return tree, nil
}

// readExemptions finds the comments of the form `//tidy:RULE why`. One without
// a reason exempts from nothing.
func (f *File) readExemptions() {
	f.exempt = map[int]map[string]bool{}
	for _, group := range f.AST.Comments {
		for _, c := range group.List {
			text, ok := strings.CutPrefix(c.Text, "//tidy:")
			if !ok {
				continue
			}
			rule, why, _ := strings.Cut(text, " ")
			if strings.TrimSpace(why) == "" {
				continue
			}
			for _, line := range []int{f.line(c.Pos()), f.line(c.Pos()) + 1} {
				if f.exempt[line] == nil {
					f.exempt[line] = map[string]bool{}
				}
				f.exempt[line][rule] = true
			}
		}
	}
}

// byDir groups the Go files by folder, in order.
func (t *Tree) byDir() ([]string, map[string][]*File) {
	dirs := map[string][]*File{}
	for _, f := range t.Files {
		dirs[f.Dir()] = append(dirs[f.Dir()], f)
	}
	var names []string
	for dir := range dirs {
		names = append(names, dir)
	}
	slices.Sort(names)
	return names, dirs
}

// importName is the name that the file uses for an imported package, "" where
// it does not import it.
func (f *File) importName(pkg string) string {
	for _, spec := range f.AST.Imports {
		if strings.Trim(spec.Path.Value, `"`) != pkg {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(pkg)
	}
	return ""
}

// uses calls visit for every use of one of the names of a package, of any name
// where none is given.
func (f *File) uses(pkg string, names []string, visit func(*ast.SelectorExpr)) {
	local := f.importName(pkg)
	if local == "" {
		return
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && (len(names) == 0 || slices.Contains(names, sel.Sel.Name)) {
			visit(sel)
		}
		return true
	})
}
