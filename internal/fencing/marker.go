package fencing

// The names of markers and of what the holders write, per client: two each.
const (
	markerAt = 0 // 1/, 2/, 3/
	entryAt  = 3 // 1/x, 2/x, 3/x
	secondAt = 6 // 1/y, 2/y, 3/y
)

// marker needs no compare-and-set: the token is in the name, and the highest marker wins.
func marker() strategy {
	finished := condition{"commit", "readers take the highest token that has written everything, as a name says that it writes last"}
	kept := condition{"tombstone", "a delete writes a name that says so, and markers are never deleted"}
	var cells []cell
	for _, op := range Operations {
		c := cell{strategy: "token-in-name", operation: op, build: func(without string) *world { return markerWorld(op, without) }}
		switch op {
		case Delete:
			c.conditions = []condition{kept}
		case Multi:
			c.conditions = []condition{finished}
		case Effect:
			c.conditions = []condition{knows}
		}
		cells = append(cells, c)
	}
	return strategy{"token-in-name", "the token in the name, no compare-and-set", "A holder writes a marker with its token, then lists. It writes under names that begin with its token, lists again, and takes its work for done if there is no higher marker. Readers take the highest token. PUT and LIST must be strongly consistent.", cells}
}

func markerWorld(op, without string) *world {
	w := newWorld("1/", "2/", "3/", "1/x", "2/x", "3/x", "1/y", "2/y", "3/y")
	w.budget = few
	w.rules = rules{once: op == Effect, clean: op == Effect}
	for i := range clients {
		put := func(at uint8) step {
			return step{send: func(t *turn) message {
				return message{op: opPut, key: at + uint8(i), val: object{tok: t.tok(), set: 1}}
			}}
		}
		higher := func(t *turn) bool { return t.p.ans.o.set>>(markerAt+i+1)&(1<<(clients-1-i)-1) != 0 }
		mark := put(markerAt)
		recover := step{
			send: func(*turn) message { return message{op: opList, marks: true} },
			got: func(t *turn) int {
				if higher(t) {
					t.note("finds a higher marker, and stops")
					return stop
				}
				if op == Effect && t.p.ans.o.set>>entryAt != 0 {
					return stop
				}
				t.p.reg[0] = t.p.ans.o.set
				return goOn
			},
		}
		p := []step{mark, recover}
		if without == "list first" {
			p = []step{recover, mark}
		}
		verify := step{
			send: func(*turn) message { return message{op: opList} },
			got: func(t *turn) int {
				if higher(t) {
					t.note("finds a higher marker, and takes its work for refused")
					return stop
				}
				return t.ack()
			},
		}
		if without == "verify" {
			verify = step{do: func(t *turn) int { return t.ack() }}
		}
		switch op {
		case Multi:
			p = append(p, put(entryAt), put(secondAt), verify)
		case Effect:
			p = append(p, step{send: func(*turn) message { return message{op: opEffect, key: 9} }}, put(entryAt), verify)
		case Delete:
			p = append(p, put(entryAt), verify)
			if without == "tombstone" && i == 2 {
				p = append([]step{mark, recover}, removeAll(i)...)
			}
		default:
			p = append(p, put(entryAt), verify)
		}
		w.prog[i] = p
	}
	w.special = func(s *state, m *message) (answer, bool) {
		if m.op == opList && m.marks {
			w.recovers(s, m)
		}
		return answer{}, true
	}
	if op == Effect {
		w.name[9] = "a charge"
		w.dedupe = without != knows.key
	}
	if op == Multi {
		w.rest = func(s *state) (fault, uint8) { return readPair(s, without != "commit") }
	}
	return w
}

// recovers has the referee note what a new holder does not find: entries of older holders
// that come later must not be taken for done.
func (w *world) recovers(s *state, m *message) {
	for i := range int(m.tok) - 1 {
		if s.obj[entryAt+i].there {
			continue
		}
		s.mon.missed |= 1 << i
		if s.mon.acked&(1<<i) != 0 {
			s.blame(dishonestAck, uint8(i+1), 0)
		}
	}
}

// removeAll deletes, for good, what a holder has found, and then its own marker.
func removeAll(i int) []step {
	next := step{
		send: func(t *turn) message {
			for k := range uint8(entryAt + clients) {
				if int(k) != markerAt+i && t.p.reg[0]&(1<<k) != 0 {
					return message{op: opDelete, key: k}
				}
			}
			return message{op: opDelete, key: uint8(markerAt + i)}
		},
		got: func(t *turn) int {
			for k := range uint8(entryAt + clients) {
				if int(k) != markerAt+i && t.p.reg[0]&(1<<k) != 0 {
					t.p.reg[0] &^= 1 << k
					return int(t.p.pc)
				}
			}
			// All that older holders write from now on is gone for later readers.
			t.s.mon.missed |= 1<<i - 1
			return t.ack()
		},
	}
	return []step{next}
}

// readPair reads both objects as readers do.
func readPair(s *state, whole bool) (fault, uint8) {
	newest := func(at int) int {
		for i := clients - 1; i >= 0; i-- {
			if s.obj[at+i].there {
				return i
			}
		}
		return -1
	}
	x, y := newest(entryAt), newest(secondAt)
	if whole {
		x = y // the second is written last
	}
	if x != y || y >= 0 && !s.obj[entryAt+y].there {
		return torn, 0
	}
	return none, 0
}
