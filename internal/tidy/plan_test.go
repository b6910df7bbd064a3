package tidy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The plan has no room that is not built, and ARCHITECTURE.md shows all that are.
func TestArrowsAndArchitectureListEveryRoom(t *testing.T) {
	tree := load(t)
	shown := read(t, tree, "ARCHITECTURE.md")
	for _, r := range rooms {
		if !tree.has(r.dir) {
			t.Errorf("%s is planned, and is not there", r.dir)
		}
		if r.dir != "." && !strings.Contains(shown, "]("+r.dir+")") && !strings.Contains(shown, "]("+r.dir+"/") {
			t.Errorf("ARCHITECTURE.md does not show %s", r.dir)
		}
	}
}

// roomRow is a row of the tables of rooms: the folder, and lines of code and of tests.
var roomRow = regexp.MustCompile(`(?m)^(\| \[[^\]]+\]\()([^)]+)(\) \| .* \| )([0-9,]+) \| ([0-9,]+) \|$`)

// ARCHITECTURE.md has a row for every folder with Go code, and its lines of code and
// tests are about right. It is written to hundreds, so that not every commit changes it.
func TestArchitectureShowsLinesOfRooms(t *testing.T) {
	tree := load(t)
	page := read(t, tree, "ARCHITECTURE.md")
	lines := map[string]*[2]int{}
	for _, m := range roomRow.FindAllStringSubmatch(page, -1) {
		lines[roomDir(m[2])] = &[2]int{}
	}
	for _, f := range tree.Files {
		room := f.Dir()
		for lines[room] == nil && room != "." {
			room = parent(room)
		}
		if lines[room] == nil || room == "." && f.Dir() != "." {
			t.Errorf("ARCHITECTURE.md has no row for %s", f.Dir())
			continue
		}
		switch {
		case f.Generated:
		case f.Test:
			lines[room][1] += f.Lines
		default:
			lines[room][0] += f.Lines
		}
	}
	wrote := roomRow.ReplaceAllStringFunc(page, func(row string) string {
		m := roomRow.FindStringSubmatch(row)
		n := lines[roomDir(m[2])]
		return fmt.Sprintf("%s%s%s%s | %s |", m[1], m[2], m[3], hundreds(n[0]), hundreds(n[1]))
	})
	if *update {
		if err := os.WriteFile(filepath.Join(tree.Root, "ARCHITECTURE.md"), []byte(wrote), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, m := range roomRow.FindAllStringSubmatch(page, -1) {
		for i, n := range lines[roomDir(m[2])] {
			shown, err := strconv.Atoi(strings.ReplaceAll(m[4+i], ",", ""))
			if err != nil {
				t.Fatal(err)
			}
			if off := max(n-shown, shown-n); off > 150 && off > n/5 {
				t.Errorf("ARCHITECTURE.md shows %d lines for %s, which has %d (make golden rewrites it)", shown, m[2], n)
			}
		}
	}
}

// roomDir is the folder that a row links to: the root's row links to its doc.go.
func roomDir(link string) string {
	if link == "doc.go" {
		return "."
	}
	return link
}

func parent(dir string) string { return filepath.ToSlash(filepath.Dir(filepath.FromSlash(dir))) }

// hundreds writes a number rounded to hundreds, with a comma between thousands. A few
// lines are a hundred.
func hundreds(n int) string {
	if n == 0 {
		return "0"
	}
	text := strconv.Itoa(max(100, (n+50)/100*100))
	if len(text) > 3 {
		return text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}
