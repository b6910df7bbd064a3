package fencing

// manifest is an object that lists others, which are written once under names that hold
// a token; it is claimed and replaced by compare-and-set.
func manifest(key, name, how string, any bool) strategy {
	var cells []cell
	for _, op := range Operations {
		c := cell{strategy: key, operation: op, build: func(without string) *world {
			if any && without == "" {
				without = "any"
			}
			return manifestWorld(op, without)
		}}
		if op == Effect {
			c.conditions = []condition{knows}
		}
		cells = append(cells, c)
	}
	return strategy{key, name, how, cells}
}

// The first object that the manifest lists, and where those of the clients begin.
const (
	oldObject   = 1
	firstObject = 2
)

func manifestWorld(op, without string) *world {
	w := newWorld("manifest", "0/a", "1/a", "1/b", "2/a", "2/b", "3/a", "3/b")
	w.hashed = true // every body holds a nonce
	w.says = func(s *state, m *message, a answer) string {
		if m.key != 0 || a.code != done || m.op != opGet && m.op != opPut {
			return ""
		}
		return ", it " + w.listing(s.obj[0])
	}
	w.budget, w.takesOver = few, true
	w.rules = rules{order: true, clean: true, once: op == Effect}
	w.has(0, object{set: 1 << oldObject})
	w.has(oldObject, object{})
	for i := range clients {
		// Names are unique: those of a second run are others.
		own := func(t *turn, n uint8) uint8 {
			if op == Multi {
				return firstObject + uint8(2*i) + n
			}
			return firstObject + uint8(2*i) + min(t.p.runs, 1)
		}
		upload := func(n uint8) step {
			return step{
				send: func(t *turn) message {
					return message{op: opPut, key: own(t, n), cond: ifAbsent, val: object{tok: t.tok()}, arg: 1}
				},
			}
		}
		listed := func(t *turn) uint8 {
			mine := uint8(1) << own(t, 0)
			switch op {
			case Overwrite:
				return mine
			case Delete:
				if i != 1 {
					return t.p.reg[0] &^ (1 << oldObject)
				}
			case Multi:
				mine |= 1 << own(t, 1)
			}
			return t.p.reg[0] | mine
		}
		commit := swap(0, func(t *turn) object { return object{tok: t.tok(), set: listed(t), nonce: t.nonce()} }, ackIfDone)
		p := manifestClaim(w, without)
		switch {
		case op == Effect:
			p = append(p, step{do: func(t *turn) int {
				if t.p.reg[0]&^(1<<oldObject) != 0 {
					return stop
				}
				return goOn
			}}, step{send: func(*turn) message { return message{op: opEffect, key: 9} }}, upload(0), commit)
		case op == Delete && i != 1:
			p = append(p, commit)
		case without == "commit first":
			commit.got = goIfDone
			p = append(p, commit, upload(0))
		case op == Multi:
			p = append(p, upload(0), upload(1), commit)
		default:
			p = append(p, upload(0), commit)
		}
		if i == 2 {
			p = p[:2] // the third holder takes over, and no more: there are too many states otherwise
		}
		w.prog[i] = p
	}
	if op == Effect {
		w.name[9] = "a charge"
		w.dedupe = without != knows.key
	}
	w.prog[clients] = sweep(without)
	w.check = func(s *state) {
		for k := range uint8(8) {
			if s.obj[0].set&(1<<k) != 0 && !s.obj[k].there {
				s.blame(dangling, 0, 0)
			}
		}
	}
	special := w.special
	w.special = func(s *state, m *message) (answer, bool) {
		// An upload takes no effect by itself: no reader finds it.
		if m.op == opPut && m.arg == 1 {
			o := &s.obj[m.key]
			if o.there {
				return answer{code: failed}, true
			}
			*o = m.val
			o.there = true
			return answer{code: done}, true
		}
		if special != nil {
			return special(s, m)
		}
		return answer{}, true
	}
	return w
}

// manifestClaim raises the manifest's token.
func manifestClaim(w *world, without string) []step {
	look := step{
		send: func(*turn) message { return message{op: opGet, marks: without == "claim"} },
		got: func(t *turn) int {
			switch {
			case t.p.ans.o.tok > t.tok():
				t.note("reads a higher token, and stops")
				return stop
			case without == "claim" || t.p.ans.o.tok == t.tok() && t.p.ans.o.nonce == t.nonce():
				keepVersion(w)(t) // claimed; perhaps the answer was lost
				return 2
			}
			return keepVersion(w)(t)
		},
	}
	raise := swap(0, func(t *turn) object {
		return object{tok: t.tok(), set: t.p.reg[0], nonce: t.nonce()}
	}, func(t *turn) int {
		if t.p.ans.code != done {
			return 0
		}
		// The store's answer names the version that it has given.
		t.p.reg[2] = 1
		copy(t.p.reg[3:], []uint8{t.tok(), t.p.reg[0], t.nonce()})
		return goOn
	})
	send := raise.send
	raise.send = func(t *turn) message {
		m := send(t)
		m.marks = true
		return m
	}
	return []step{look, raise}
}

// sweep deletes one object that the manifest does not list and whose token is below the
// manifest's; or, wrongly, any that it does not list.
func sweep(without string) []step {
	look := step{
		send: func(*turn) message { return message{op: opGet} },
		got: func(t *turn) int {
			t.p.reg[0], t.p.reg[1] = t.p.ans.o.set, t.p.ans.o.tok
			return goOn
		},
	}
	list := step{
		send: func(*turn) message { return message{op: opList} },
		got: func(t *turn) int {
			for k := uint8(oldObject); k < 8; k++ {
				tok := k / 2 // of the names 0/a, 1/a, 1/b, 2/a …
				if t.p.ans.o.set&(1<<k) == 0 || t.p.reg[0]&(1<<k) != 0 {
					continue
				}
				if without == "any" || tok < t.p.reg[1] {
					t.p.reg[2] = k
					return goOn
				}
			}
			return stop
		},
	}
	return []step{look, list, {send: func(t *turn) message { return message{op: opDelete, key: t.p.reg[2]} }}}
}
