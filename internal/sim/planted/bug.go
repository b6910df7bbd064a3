package planted

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Folder holds the files of the bugs, from the root of the repository.
const Folder = "internal/sim/planted/bugs"

// Bug is a mistake that can be planted.
type Bug struct {
	// Room is the name of the file that the bug stands in, without its ending.
	Room string
	// Name and Why it is a bug.
	Name, Why string
	// Ships is the mistake that other systems ship; "": none is known.
	Ships string
	// Ways in which it is found: all of them.
	Ways []Way
	// Changes make the bug, in order.
	Changes []Change
	// at is where the bug stands: file and line.
	at string
}

// By is what finds a bug.
type By string

// What finds a bug.
const (
	BySim   By = "sim"   // a simulated world
	BySmall By = "small" // a small world
	ByTest  By = "test"  // a test
)

// Way is a way in which a bug is found.
type Way struct {
	By By
	// Seed of the simulated world; 0: not known yet.
	Seed uint64
	// World is the name of the small world.
	World string
	// Package and Run are the folder of the test's package and the expression that
	// names the test.
	Package, Run string
	// Invariant that is broken; "": not known yet, or for a test not asked for.
	Invariant string
	// line of the file, from 0.
	line int
}

// String is the way as it stands in a bug's file.
func (w Way) String() string {
	parts := []string{string(w.By), w.World, w.Package, w.Run, w.Invariant}
	if w.Seed != 0 {
		parts[1] = strconv.FormatUint(w.Seed, 10)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// Change replaces text in a file: whole lines, without the last line's end.
type Change struct {
	File     string
	Old, New string
}

// Load reads all bugs below the root of the repository, by room and then as they
// stand in the file.
func Load(root string) ([]Bug, error) {
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(Folder), "*.txt"))
	if err != nil {
		return nil, fmt.Errorf("list the bugs: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no bugs in %s", filepath.Join(root, filepath.FromSlash(Folder)))
	}
	var all []Bug
	known := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read bugs: %w", err)
		}
		bugs, err := Parse(strings.TrimSuffix(filepath.Base(file), ".txt"), string(text))
		if err != nil {
			return nil, err
		}
		for _, b := range bugs {
			if other, twice := known[b.Name]; twice {
				return nil, fmt.Errorf("%s: the bug %q stands in %s, too", b.at, b.Name, other)
			}
			known[b.Name] = b.at
		}
		all = append(all, bugs...)
	}
	return all, nil
}

// Parse reads the bugs of one room.
func Parse(room, text string) ([]Bug, error) {
	p := reader{room: room}
	for line := range strings.Lines(text) {
		if err := p.take(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, fmt.Errorf("%s: %w", p.at(), err)
		}
		p.line++
	}
	if err := p.endBug(); err != nil {
		return nil, err
	}
	return p.bugs, nil
}

// reader takes the lines of a file.
type reader struct {
	room string
	line int
	bugs []Bug
	// file is the one that is changed, and change are the lines of its present
	// change.
	file   string
	change []string
}

func (p *reader) at() string { return fmt.Sprintf("%s/%s.txt:%d", Folder, p.room, p.line+1) }

func (p *reader) take(line string) error {
	switch {
	case strings.HasPrefix(line, "#"):
		return nil
	case line == "":
		p.change = append(p.change, " ")
		return nil
	case strings.ContainsRune(" -+", rune(line[0])):
		if p.file == "" {
			return errors.New("a change without a file")
		}
		p.change = append(p.change, line)
		return nil
	case line == "@@":
		return p.endChange()
	}
	key, value, ok := strings.Cut(line, ": ")
	if value = strings.TrimSpace(value); !ok || value == "" {
		return fmt.Errorf("%q is no field, no change and no comment", line)
	}
	if key == "bug" {
		if err := p.endBug(); err != nil {
			return err
		}
		p.bugs = append(p.bugs, Bug{Room: p.room, Name: value, at: p.at()})
		return nil
	}
	if len(p.bugs) == 0 {
		return fmt.Errorf("%s before the first bug", key)
	}
	b := &p.bugs[len(p.bugs)-1]
	switch {
	case key == "file":
		if p.file != "" {
			if err := p.endChange(); err != nil {
				return err
			}
		}
		p.file, p.change = value, nil
	case p.file != "":
		return fmt.Errorf("%s after a file", key)
	case key == "why" && b.Why == "":
		b.Why = value
	case key == "ships" && b.Ships == "":
		b.Ships = value
	case key == "found":
		w, err := parseWay(value)
		if err != nil {
			return err
		}
		w.line = p.line
		b.Ways = append(b.Ways, w)
	default:
		return fmt.Errorf("%s is no field, or stands there twice", key)
	}
	return nil
}

func parseWay(text string) (Way, error) {
	words := strings.Fields(text)
	w := Way{By: By(words[0])}
	into := map[By][]*string{
		BySim: {new(string), &w.Invariant}, BySmall: {&w.World, &w.Invariant}, ByTest: {&w.Package, &w.Run, &w.Invariant},
	}[w.By]
	least := map[By]int{BySim: 0, BySmall: 1, ByTest: 2}[w.By]
	if words = words[1:]; into == nil || len(words) < least || len(words) > len(into) {
		return Way{}, fmt.Errorf("%q is none of: sim SEED INVARIANT, small WORLD INVARIANT, test PACKAGE REGEXP [INVARIANT]", text)
	}
	for i, word := range words {
		*into[i] = word
	}
	if w.By == BySim && len(words) > 0 {
		var err error
		if w.Seed, err = strconv.ParseUint(words[0], 10, 64); err != nil || w.Seed == 0 {
			return Way{}, fmt.Errorf("%q is no seed", words[0])
		}
	}
	return w, nil
}

// endChange ends the present change.
func (p *reader) endChange() error {
	lines := p.change
	p.change = nil
	for len(lines) > 0 && lines[len(lines)-1] == " " {
		lines = lines[:len(lines)-1]
	}
	var before, after []string
	for _, line := range lines {
		if line[0] != '+' {
			before = append(before, line[1:])
		}
		if line[0] != '-' {
			after = append(after, line[1:])
		}
	}
	c := Change{p.file, strings.Join(before, "\n"), strings.Join(after, "\n")}
	switch {
	case p.file == "":
		return errors.New("a change without a file")
	case strings.TrimSpace(c.Old) == "":
		return errors.New("the change above names no line of the file to be found by")
	case c.Old == c.New:
		return errors.New("the change above changes nothing")
	}
	b := &p.bugs[len(p.bugs)-1]
	b.Changes = append(b.Changes, c)
	return nil
}

// endBug ends the present bug.
func (p *reader) endBug() error {
	if len(p.bugs) == 0 {
		return nil
	}
	b := &p.bugs[len(p.bugs)-1]
	if p.file != "" {
		if err := p.endChange(); err != nil {
			return fmt.Errorf("%s: %w", b.at, err)
		}
	}
	p.file, p.change = "", nil
	switch {
	case b.Why == "":
		return fmt.Errorf("%s: %q does not say why it is a bug", b.at, b.Name)
	case len(b.Ways) == 0:
		return fmt.Errorf("%s: %q does not say how it is found", b.at, b.Name)
	case len(b.Changes) == 0:
		return fmt.Errorf("%s: %q changes no file", b.at, b.Name)
	}
	return nil
}
