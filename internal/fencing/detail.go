package fencing

import (
	"fmt"
	"slices"
	"strings"
)

// tag is a version of an object as a trace calls it, and who read it first; "": nobody did.
type tag struct {
	version [3]uint8
	reader  string
}

// number is what a trace calls a version of an object: the first that is seen there is 1.
func (w *world) number(key uint8, v [3]uint8) int {
	for i, known := range w.tags[key] {
		if known.version == v {
			return i + 1
		}
	}
	w.tags[key] = append(w.tags[key], tag{version: v})
	return len(w.tags[key])
}

// detail says what an answer contains, as far as later steps depend on it. It is asked for
// when a request has just been carried out, and only where a trace is told.
func (w *world) detail(s *state, m *message, a answer) string {
	if w.says != nil {
		if text := w.says(s, m, a); text != "" {
			return text
		}
	}
	if a.code != done {
		return ""
	}
	switch m.op {
	case opList:
		return w.names(s)
	case opAcquireLease:
		return ", the store's lease is " + letter(m.tok) + "'s"
	case opTake:
		return ", it is " + letter(a.o.tok) + "'s"
	case opOpen:
		return fmt.Sprintf(", epoch %d", a.o.set)
	case opGet:
		return w.readVersion(s, m)
	case opPut:
		return w.writtenVersion(s, m)
	}
	return ""
}

func (w *world) readVersion(s *state, m *message) string {
	if w.tag == "" {
		return ""
	}
	n := w.number(m.key, w.version(s.obj[m.key]))
	if t := &w.tags[m.key][n-1]; t.reader == "" {
		t.reader = w.who(int(m.from))
	}
	return fmt.Sprintf(", %s %d", w.tag, n)
}

func (w *world) writtenVersion(s *state, m *message) string {
	if w.tag == "" {
		return ""
	}
	known := len(w.tags[m.key])
	n := w.number(m.key, w.version(s.obj[m.key]))
	if n > known {
		return fmt.Sprintf(", %s %d", w.tag, n)
	}
	whose := ""
	if by := w.tags[m.key][n-1].reader; by != "" && by != w.who(int(m.from)) {
		whose = " that " + by + " had read"
	}
	return fmt.Sprintf("; these are the bytes%s, so that the %s is %d again", whose, w.tag, n)
}

// names lists what is in the store.
func (w *world) names(s *state) string {
	var there []string
	for k := range s.obj {
		if s.obj[k].there {
			there = append(there, w.name[k])
		}
	}
	if len(there) == 0 {
		return ", nothing is there"
	}
	return ", " + strings.Join(there, ", ")
}

// listing says which names a body refers to.
func (w *world) listing(o object) string {
	var of []string
	for k := range w.name {
		if k < 8 && o.set&(1<<k) != 0 {
			of = append(of, w.name[k])
		}
	}
	if len(of) == 0 {
		return "lists nothing"
	}
	return "lists " + strings.Join(of, ", ")
}

// followed reports whether the next thing that happens after the event at i, which is a
// send, is that the request reaches the store: the two are told as one.
func followed(trace []Event, i int) bool {
	e := trace[i]
	if e.Kind != Sends {
		return false
	}
	next := i + 1 + slices.IndexFunc(trace[i+1:], func(n Event) bool { return n.Kind != Receives })
	if next <= i {
		return false
	}
	n := trace[next]
	return (n.Kind == Arrives || n.Kind == Admits) && n.Who == e.Who && n.sent == e.sent
}
