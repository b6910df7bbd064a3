package tidy

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// users are programs that a user of ours might write, each importing one public
// package outside our workspace.
var users = []struct {
	name    string
	module  string   // the folder of the module that they require
	with    []string // folders of our other modules that this one requires
	imports string
}{
	{name: "sdk", module: ".", with: []string{"guard"}, imports: modulePath},
	{name: "guard", module: "guard", imports: modulePath + "/guard"},
	{name: "sqlguard", module: "guard", imports: modulePath + "/guard/sqlguard"},
	{name: "objguard", module: "guard", imports: modulePath + "/guard/objguard"},
	{name: "s3bucket", module: "guard/objguard/s3bucket", with: []string{"guard"}, imports: modulePath + "/guard/objguard/s3bucket"},
	{name: "pgguard", module: "guard/pgguard", with: []string{"guard"}, imports: modulePath + "/guard/pgguard"},
}

// Each user's program builds, and its module graph is the recorded one: a required
// module raises the versions of all that require us, even if nothing of it is compiled.
func TestUsersModules(t *testing.T) {
	tree := load(t)
	for _, user := range users {
		t.Run(user.name, func(t *testing.T) {
			got, err := userGraph(t.TempDir(), tree.Root, user.module, user.with, user.imports)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "users", user.name+".golden"), got)
		})
	}
}

// TestUsersModulesShowAddedRequirement gives guard a requirement and looks for it in
// its user's graph.
func TestUsersModulesShowAddedRequirement(t *testing.T) {
	tree := load(t)
	ours := t.TempDir()
	write(t, ours, "guard/go.mod", "module "+modulePath+"/guard\n\ngo 1.26\n\nrequire example.com/driver v1.0.0\n\nreplace example.com/driver => ../driver\n")
	write(t, ours, "guard/guard.go", "package guard\n")
	write(t, ours, "driver/go.mod", "module example.com/driver\n\ngo 1.26\n")
	user := t.TempDir()
	write(t, user, "go.mod", "module example.com/user\n\ngo 1.26\n\nreplace example.com/driver => "+ours+"/driver\n")
	got, err := graphOf(user, ours, "guard", nil, modulePath+"/guard")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, "example.com/driver v1.0.0\n") {
		t.Errorf("the added module does not show:\n%s", got)
	}
	recorded := read(t, tree, "internal/tidy/testdata/users/guard.golden")
	if _, added := lineDiff(recorded, got); len(added) != 1 {
		t.Errorf("against the recorded graph %q is new, want one line", added)
	}
}

// userGraph writes a user's program in dir and lists the modules of its build.
func userGraph(dir, root, module string, with []string, imports string) (string, error) {
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/user\n\ngo 1.26\n"), 0o644); err != nil {
		return "", err
	}
	return graphOf(dir, root, module, with, imports)
}

// graphOf completes the program whose go.mod lies in dir.
func graphOf(dir, root, module string, with []string, imports string) (string, error) {
	var edit, sums []string
	for i, m := range append([]string{module}, with...) {
		name := modulePath
		if m != "." {
			name += "/" + m
		}
		edit = append(edit, fmt.Sprintf("-replace=%s@v0.0.0=%s", name, filepath.Join(root, m)))
		if i == 0 {
			edit = append(edit, "-require="+name+"@v0.0.0")
		}
		sum, err := os.ReadFile(filepath.Join(root, m, "go.sum"))
		if err != nil && !os.IsNotExist(err) {
			return "", err
		}
		sums = append(sums, string(sum))
	}
	if err := os.WriteFile(filepath.Join(dir, "go.sum"), []byte(strings.Join(sums, "")), 0o644); err != nil {
		return "", err
	}
	program := "package main\n\nimport _ \"" + imports + "\"\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o644); err != nil {
		return "", err
	}
	if _, err := goRun(dir, append([]string{"mod", "edit"}, edit...)...); err != nil {
		return "", err
	}
	if _, err := goRun(dir, "build", "-mod=mod", "-o", os.DevNull, "."); err != nil {
		return "", err
	}
	return goRun(dir, "list", "-mod=mod", "-m", "-f", "{{.Path}}{{with .Version}} {{.}}{{end}}", "all")
}

func goRun(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "PWD="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, &stderr)
	}
	return string(out), nil
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
