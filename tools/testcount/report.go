package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is one line of `go test -json` (go doc test2json); build events carry
// ImportPath where test events carry Package.
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// report turns events into lines for a reader.
type report struct {
	w      io.Writer
	counts counts
	kept   map[string]*strings.Builder // output by test, until it is known how it ended
	closed map[string]string           // the package's own closing line
	failed map[string]int              // failed tests by package
	open   map[string]bool             // packages begun and not ended
}

func newReport(w io.Writer) *report {
	return &report{
		w:      w,
		kept:   map[string]*strings.Builder{},
		closed: map[string]string{},
		failed: map[string]int{},
		open:   map[string]bool{},
	}
}

// read takes events until r ends. A line that is no event is shown as it is.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.take(e)
			} else {
				fmt.Fprintf(r.w, "%s", line)
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("read events: %w", err)
		}
	}
}

func (r *report) take(e event) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "start":
		r.open[e.Package] = true
	case "build-output":
		fmt.Fprint(r.w, e.Output)
	case "output":
		if announces(e.Output) {
			return
		}
		if e.Test == "" && closes(e.Output) {
			r.closed[e.Package] = e.Output
			return
		}
		if r.kept[key] == nil {
			r.kept[key] = &strings.Builder{}
		}
		r.kept[key].WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(e)
		}
		delete(r.kept, key)
	}
}

// closes reports whether a package's output line is the one go test ends with.
func closes(line string) bool {
	for _, start := range []string{"ok  \t", "FAIL\t", "?   \t"} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return strings.HasPrefix(line, "\t") && strings.Contains(line, "coverage:")
}

// announces reports whether a line only says that a test begins or goes on.
func announces(line string) bool {
	for _, start := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "} {
		if strings.HasPrefix(line, start) {
			return true
		}
	}
	return false
}

func (r *report) endTest(e event) {
	switch e.Action {
	case "pass":
		r.counts.passed++
	case "skip":
		r.counts.skipped++
		r.show(e)
	case "fail":
		r.counts.failed++
		r.failed[e.Package]++
		r.show(e)
	}
}

func (r *report) show(e event) {
	if kept := r.kept[e.Package+"\x00"+e.Test]; kept != nil {
		fmt.Fprintf(r.w, "%s: %s", e.Package, kept)
	}
}

func (r *report) endPackage(e event) {
	delete(r.open, e.Package)
	if e.Action == "fail" {
		if r.failed[e.Package] == 0 {
			r.counts.failed++ // it did not build, panicked outside a test, or ran out of time
		}
		r.showRest(e.Package)
	}
	if line := r.closed[e.Package]; line != "" {
		fmt.Fprint(r.w, line)
	} else if e.Action == "fail" {
		fmt.Fprintf(r.w, "FAIL\t%s\t%.3fs\n", e.Package, e.Elapsed)
	}
}

// showRest shows what the package itself printed and what tests printed that
// never ended.
func (r *report) showRest(pkg string) {
	var own string
	for key, kept := range r.kept {
		name, test, _ := strings.Cut(key, "\x00")
		switch {
		case name != pkg:
			continue
		case test == "":
			own = kept.String()
		default:
			fmt.Fprintf(r.w, "%s: %s did not end:\n%s", pkg, test, kept)
		}
		delete(r.kept, key)
	}
	fmt.Fprint(r.w, own)
}

// finish returns the counts; a command that failed has at least one failure.
func (r *report) finish(code int) counts {
	for pkg := range r.open {
		r.counts.failed++
		r.showRest(pkg)
		fmt.Fprintf(r.w, "FAIL\t%s\t[did not end]\n", pkg)
	}
	if code != 0 && r.counts.failed == 0 {
		r.counts.failed++
	}
	return r.counts
}
