package fencing

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/fencing/table"
)

const root = "../.."

// The table, the page and the drawings are what the checker finds. In short mode, the
// checker runs only the strategies with few states.
func TestPageTableAndDrawingsAreWhatTheCheckerFinds(t *testing.T) {
	if testing.Short() {
		checkSome(t)
		return
	}
	begin := time.Now()
	o, err := Judge()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, %.0f s", o.Summary(), time.Since(begin).Seconds())
	files, err := o.Files(onDisk(t, PageFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if onDisk(t, name) != string(text) {
			t.Errorf("%s is not what the checker finds (go generate ./internal/fencing writes it)", name)
		}
	}
	drawings, err := os.ReadDir(filepath.Join(root, Drawings))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range drawings {
		if files[path.Join(Drawings, d.Name())] == nil {
			t.Errorf("%s/%s is no longer drawn", Drawings, d.Name())
		}
	}
	if len(o.drawings) != len(drawn) {
		t.Errorf("%d drawings are asked for, %d are there", len(drawn), len(o.drawings))
	}
}

// checkSome runs what is quick, and compares it with the recorded table.
func checkSome(t *testing.T) {
	recorded := recordedTable(t)
	quick := []string{"nothing", "token", "idem-token", "wait-out", "lww-clock"}
	for _, s := range strategies() {
		if !slices.Contains(quick, s.key) {
			continue
		}
		for _, c := range s.cells {
			got, _, err := c.judge()
			if err != nil {
				t.Fatal(err)
			}
			want := cellOf(recorded, c.strategy, c.operation)
			for i := range want.Lacks {
				want.Lacks[i].Figure = ""
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s %s: found\n%+v\nrecorded\n%+v", c.strategy, c.operation, got, want)
			}
		}
	}
}

// The page says what the recorded table says.
func TestPageSaysWhatIsRecorded(t *testing.T) {
	page := onDisk(t, PageFile)
	filled, err := fillPage(page, recordedTable(t))
	if err != nil {
		t.Fatal(err)
	}
	if filled != page {
		t.Errorf("%s differs from the recorded table (go generate ./internal/fencing writes it)", PageFile)
	}
}

// A page that lacks a mark is refused: otherwise a part of it would never be written.
func TestPageWithoutMarkIsRefused(t *testing.T) {
	page := onDisk(t, PageFile)
	without := string(bytes.Replace([]byte(page), []byte("<!-- end: table -->"), nil, 1))
	if _, err := fillPage(without, recordedTable(t)); err == nil {
		t.Error("a page without the end of its table was filled")
	}
}

// Every strategy has a cell for every operation, which is run or says why not; every
// strategy that a store names is there.
func TestEveryCellIsRunOrSaysWhyNot(t *testing.T) {
	recorded := recordedTable(t)
	for _, s := range strategies() {
		for _, op := range Operations {
			i := slices.IndexFunc(s.cells, func(c cell) bool { return c.operation == op })
			if i < 0 {
				t.Errorf("%s has no cell for %s", s.key, op)
				continue
			}
			if c := s.cells[i]; (c.build == nil) == (c.none == "") {
				t.Errorf("%s %s: neither run nor excused, or both", s.key, op)
			}
			c := cellOf(recorded, s.key, op)
			if c.None == "" && (c.States == 0 || c.Verdict == "") || c.Verdict != table.Safe && c.Verdict != "" && len(c.Lacks) == 0 {
				t.Errorf("%s %s is recorded as %+v", s.key, op, c)
			}
		}
	}
	for _, store := range stores {
		for _, key := range store.Strategies {
			if _, ok := recorded.Strategy(key); !ok {
				t.Errorf("%s names the strategy %q, which there is none of", store.Key, key)
			}
		}
	}
}

func recordedTable(t *testing.T) table.Table {
	t.Helper()
	recorded, err := table.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	return recorded
}

func onDisk(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
