package fencing

import (
	"bytes"
	"fmt"
	"hash/maphash"
)

// statesMost is how many states one world may have; beyond it the checker would not end
// in the time that it promises, and a verdict would be a guess.
const statesMost = 6_000_000

// way is a kind of transition.
type way uint8

const (
	steps way = iota
	arrives
	arrivesAndRepeats
	requestLost
	answerLost
	late
	crashes
	givesUp
	happens
)

// move is a transition: its kind, and of what.
type move struct {
	way way
	of  uint8
}

// moves lists every transition that may be possible; try says whether it is.
func (w *world) moves(s *state, each func(move)) {
	for j := range s.n {
		m := &s.net[j]
		each(move{arrives, j})
		if !w.fails(int(m.from)) {
			continue
		}
		if s.faults > 0 && s.repeats > 0 && (m.stage == underway || w.legRepeats) {
			each(move{arrivesAndRepeats, j})
		}
		if s.faults > 0 && s.losses > 0 && m.waited {
			if m.stage == underway {
				each(move{requestLost, j})
			}
			each(move{answerLost, j})
		}
		if w.giveUps && s.faults > 0 && m.stage == admitted {
			each(move{givesUp, j})
		}
	}
	for i := range uint8(procs) {
		p := &s.proc[i]
		if w.prog[i] == nil || p.phase == finished {
			continue
		}
		if p.phase == waiting {
			if s.faults > 0 && s.losses > 0 && w.fails(int(i)) {
				each(move{late, i})
			}
		} else {
			each(move{steps, i})
		}
		if s.faults > 0 && s.crashes > 0 && w.fails(int(i)) && (p.phase != idle || p.pc != 0) {
			each(move{crashes, i})
		}
	}
	for k := range w.env {
		each(move{happens, uint8(k)})
	}
}

// fails reports whether faults meet the process: a collector's requests may be late, but
// it does not crash, and nothing of it is lost or repeated.
func (w *world) fails(i int) bool { return i < clients || w.relays }

// try makes a move, and reports whether it was possible.
func (w *world) try(s *state, mv move) bool {
	switch mv.way {
	case steps:
		if s.proc[mv.of].phase == answered {
			w.receive(s, int(mv.of))
			return true
		}
		return w.start(s, int(mv.of))
	case arrives, arrivesAndRepeats, answerLost:
		return w.arrive(s, int(mv.of), mv.way)
	case requestLost:
		m := s.net[mv.of]
		w.tellOf(Loses, m, "")
		s.remove(int(mv.of))
		w.silence(s, int(m.from))
	case late:
		if w.tellTo != nil {
			w.tell(Event{Kind: Waits, Who: w.who(int(mv.of)), Text: "gets no answer in time"})
		}
		s.orphan(int(mv.of))
		w.silence(s, int(mv.of))
	case crashes:
		if w.tellTo != nil {
			w.tell(Event{Kind: Crashes, Who: w.who(int(mv.of)), Text: "crashes"})
		}
		s.crashes--
		s.faults--
		s.orphan(int(mv.of))
		s.proc[mv.of] = process{runs: s.proc[mv.of].runs + 1}
	case givesUp:
		m := &s.net[mv.of]
		if w.tellTo != nil {
			w.tell(Event{Kind: Happens, Who: "", Text: "the proxy stops waiting for " + w.who(int(m.from)) + "'s request, which is still on its way"})
		}
		m.stage = abandoned
		s.faults--
	case happens:
		e := &w.env[mv.of]
		if !e.can(s) {
			return false
		}
		e.do(s)
		if w.tellTo != nil {
			text := e.text
			if e.says != nil {
				text += e.says(s)
			}
			w.tell(Event{Kind: Happens, Text: text})
		}
	}
	return true
}

// silence leaves a process without its answer.
func (w *world) silence(s *state, from int) {
	s.losses--
	s.faults--
	s.proc[from].phase = answered
	s.proc[from].ans = answer{}
}

// arrive has a request reach what checks it, or what carries it out.
func (w *world) arrive(s *state, j int, how way) bool {
	m := s.net[j]
	repeats := how == arrivesAndRepeats
	var a answer
	v := passes
	if m.stage == underway && w.admit != nil {
		v = w.admit(s, &m)
	}
	switch v {
	case blocked:
		return false
	case taken:
		if how == answerLost {
			return false // it has none yet
		}
		s.net[j] = m
		s.net[j].stage = admitted
		if repeats {
			w.repeat(s, m, underway)
		}
		why := ""
		if w.passed != nil && w.tellTo != nil {
			why = w.passed(s, &m)
		}
		w.tellOf(Admits, m, copied("admitted"+why+", and not yet carried out", repeats))
		return true
	case denied:
		a = answer{code: refused}
	case passes:
		var ok bool
		if w.heldReads && m.marks && s.granted > m.tok && m.tok > 0 {
			a, ok = answer{code: refused}, true
		} else {
			a, ok = w.serve(s, &m)
		}
		if !ok {
			return false
		}
	}
	s.remove(j)
	if repeats {
		again := m.stage
		if again == admitted {
			again = abandoned // what checks does not know of the copy
		}
		w.repeat(s, m, again)
	}
	if w.tellTo != nil {
		w.tellOf(Arrives, m, copied(answerText(m.op, a)+w.detail(s, &m, a), repeats))
	}
	if m.waited {
		if how == answerLost {
			if w.tellTo != nil {
				w.tell(Event{Kind: Happens, Text: "the answer to " + w.who(int(m.from)) + " is lost"})
			}
			w.silence(s, int(m.from))
		} else {
			s.proc[m.from].phase, s.proc[m.from].ans = answered, a
		}
	}
	return true
}

// repeat leaves a copy of the request on its way, for which nobody waits.
func (w *world) repeat(s *state, m message, at stage) {
	s.repeats--
	s.faults--
	m.waited, m.stage, m.until = false, at, 0
	s.post(m)
}

// judged reports whether the state breaks a promise.
func (w *world) judged(s *state) bool {
	if w.check != nil && s.mon.fault == none {
		w.check(s)
	}
	if w.rest != nil && s.mon.fault == none && w.atRest(s) {
		if f, by := w.rest(s); f != none {
			s.blame(f, by, 0)
		}
	}
	return s.mon.fault != none
}

// found is what an exploration found.
type found struct {
	states int
	fault  string // "": every promise holds in every state
	broken fault
	acked  uint8 // clients that take their work for done in some state
	trace  []Event
}

// explore goes through every state that can be reached, nearest first, so that the first
// broken promise is reached in the fewest moves.
func explore(w *world) found {
	first := w.begin
	first.faults = w.budget.faults
	first.crashes, first.repeats, first.losses = w.budget.crashes, w.budget.repeats, w.budget.losses
	e := &explorer{w: w, pack: newPacker(w), seed: maphash.MakeSeed()}
	e.add(&first, 0, move{})
	var now, next state
	var acked uint8
	for at := 0; at < len(e.kept); at++ {
		e.pack.unpack(e.bytes(at), &now)
		bad := -1
		w.moves(&now, func(mv move) {
			if bad >= 0 {
				return
			}
			next = now
			if !w.try(&next, mv) {
				return
			}
			wrong := w.judged(&next)
			acked |= next.mon.acked
			if e.add(&next, uint32(at), mv) && wrong {
				bad = len(e.kept) - 1
			}
		})
		if bad >= 0 {
			return e.report(bad)
		}
		if len(e.kept) > statesMost {
			panic(fmt.Sprintf("fencing: a world has more than %d states", statesMost))
		}
	}
	return found{states: len(e.kept), acked: acked}
}

// explorer keeps the states that were reached, and how.
type explorer struct {
	w     *world
	pack  packer
	seed  maphash.Seed
	kept  []reached
	pages [][]byte
	table []uint64 // by hash: half of the hash, and an index into kept plus one
}

// reached is a state that was reached: where its bytes are, and how it was reached.
type reached struct {
	page, at uint32
	bytes    uint16
	by       move
	from     uint32
}

// pageSize is how many bytes of states are kept together.
const pageSize = 1 << 20

func (e *explorer) bytes(i int) []byte {
	k := &e.kept[i]
	return e.pages[k.page][k.at : k.at+uint32(k.bytes)]
}

// add keeps a state that is new.
func (e *explorer) add(s *state, from uint32, by move) bool {
	if 2*len(e.kept) >= len(e.table) {
		e.grow()
	}
	b := e.pack.pack(s)
	hash := maphash.Bytes(e.seed, b)
	mask := uint64(len(e.table) - 1)
	slot := hash & mask
	for ; e.table[slot] != 0; slot = (slot + 1) & mask {
		if e.table[slot]>>32 == hash>>32 && bytes.Equal(e.bytes(int(uint32(e.table[slot]))-1), b) {
			return false
		}
	}
	last := len(e.pages) - 1
	if last < 0 || len(e.pages[last])+len(b) > pageSize {
		e.pages = append(e.pages, make([]byte, 0, pageSize))
		last++
	}
	at := len(e.pages[last])
	e.pages[last] = append(e.pages[last], b...)
	e.kept = append(e.kept, reached{uint32(last), uint32(at), uint16(len(b)), by, from})
	e.table[slot] = hash>>32<<32 | uint64(len(e.kept))
	return true
}

func (e *explorer) grow() {
	e.table = make([]uint64, max(1<<12, 2*len(e.table)))
	mask := uint64(len(e.table) - 1)
	for i := range e.kept {
		hash := maphash.Bytes(e.seed, e.bytes(i))
		slot := hash & mask
		for e.table[slot] != 0 {
			slot = (slot + 1) & mask
		}
		e.table[slot] = hash>>32<<32 | uint64(i+1)
	}
}

// report repeats the moves that lead to a state, and says them.
func (e *explorer) report(bad int) found {
	var path []move
	for at := bad; at != 0; at = int(e.kept[at].from) {
		path = append(path, e.kept[at].by)
	}
	f := found{states: len(e.kept)}
	var s state
	e.pack.unpack(e.bytes(0), &s)
	e.w.tags = [objects][]tag{}
	e.w.tellTo = func(ev Event) { f.trace = append(f.trace, ev) }
	for i := len(path) - 1; i >= 0; i-- {
		e.w.try(&s, path[i])
	}
	e.w.judged(&s)
	e.w.tellTo = nil
	f.fault = s.mon.fault.text(s.mon.by, s.mon.old)
	f.broken = s.mon.fault
	return f
}
