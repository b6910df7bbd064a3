package fencing

// The conditions of compare-and-set.
var (
	before = condition{"before", "each holder read its version before the next one was granted, and never reads again: no retry loop, no late read"}
	nonce  = condition{"nonce", "every body holds a nonce: an ETag that is a hash of the body comes back with the body"}
	stays  = condition{"stays", "nobody ever deletes the object: no clean-up job, lifecycle rule or TTL"}
	grave  = condition{"tombstone", "a delete overwrites the object with a tombstone: after a true delete a late create succeeds"}
)

// belief is the mistake, and no condition, to take a 412 for a loss.
const belief = "belief"

// etag is compare-and-set by what the store gives as the version of an object.
func etag(key, name, how string, hashed bool) strategy {
	var cells []cell
	for _, op := range Operations {
		cells = append(cells, cell{
			strategy: key, operation: op, conditions: etagConditions(op, hashed),
			build: func(without string) *world {
				w := etagWorld(op, without, hashed)
				if op != Create { // it asks for no version
					w.tag = "ETag"
					if key == "generation" {
						w.tag = "generation"
					}
				}
				return w
			},
		})
	}
	return strategy{key, name, how, cells}
}

func etagConditions(op string, hashed bool) []condition {
	switch {
	case op == Create:
		return []condition{stays}
	case op == Delete && hashed:
		return []condition{before, nonce, grave}
	case op == Delete:
		return []condition{before, grave}
	case op == Overwrite && hashed:
		return []condition{before, nonce}
	case op == Overwrite || op == Append:
		return []condition{before}
	case op == Multi:
		return []condition{redo}
	}
	return []condition{before, knows}
}

// keepVersion keeps what a holder has read, and its version in the last three locals.
func keepVersion(w *world) func(t *turn) int {
	return func(t *turn) int {
		a := &t.p.ans
		if a.code == refused {
			return stop
		}
		v := w.version(a.o)
		t.p.reg[0], t.p.reg[1] = a.o.set, a.o.gen
		t.p.reg[2] = 0
		if a.o.there {
			t.p.reg[2] = 1
		}
		copy(t.p.reg[3:], v[:])
		return goOn
	}
}

// swap is a write on the condition that the object is as it was read.
func swap(key uint8, body func(t *turn) object, got func(t *turn) int) step {
	return step{
		send: func(t *turn) message {
			m := message{op: opPut, key: key, cond: ifAbsent, val: body(t), base: t.p.reg[1]}
			if t.p.reg[2] != 0 {
				m.cond = ifMatch
				copy(m.ver[:], t.p.reg[3:])
			}
			return m
		},
		got: got,
	}
}

func etagWorld(op, without string, hashed bool) *world {
	w := newWorld(namesOf(op)...)
	w.hashed, w.versions = hashed, !hashed || op == Append
	w.heldReads = without != before.key
	w.rules = rules{order: op != Multi, once: op == Effect, clean: op == Effect, lineage: op == Append || op == Overwrite && !hashed}
	nonced := func(t *turn, o object) object {
		if hashed && without != nonce.key {
			o.nonce = t.nonce()
		}
		return o
	}
	for i := range clients {
		body := func(t *turn) object { return nonced(t, object{set: t.p.reg[0] | t.bit()}) }
		if op == Overwrite && i == 2 {
			// The third holder writes what was there in the beginning.
			body = func(t *turn) object { return nonced(t, object{}) }
		}
		w.prog[i] = []step{read(0, keepVersion(w)), swap(0, body, ackIfDone)}
		switch op {
		case Create:
			w.prog[i] = createOnce(without)
		case Delete:
			w.prog[i] = []step{read(0, keepVersion(w)), etagDelete(i, without, nonced)}
		case Multi:
			w.prog[i] = []step{
				read(0, keepVersion(w)),
				swap(0, func(t *turn) object { return nonced(t, object{tok: t.tok()}) }, goIfDone),
				read(1, keepVersion(w)),
				swap(1, func(t *turn) object { return nonced(t, object{tok: t.tok()}) }, ackIfDone),
			}
		case Effect:
			w.prog[i] = []step{
				read(0, func(t *turn) int {
					if t.p.ans.o.set != 0 {
						return stop
					}
					return keepVersion(w)(t)
				}),
				{send: func(*turn) message { return message{op: opEffect, key: 1} }},
				swap(0, body, ackIfDone),
			}
		}
	}
	switch op {
	case Create:
		if without == stays.key {
			w.cleaner()
		}
	case Multi:
		w.budget, w.heldReads = budget{}, false // it fails without any fault
		w.has(0, object{})
		w.has(1, object{})
		w.rest = tornPair
		w.finish = without != redo.key
	case Effect:
		w.has(0, object{})
		w.dedupe = without != knows.key
	default:
		w.has(0, object{})
	}
	return w
}

// etagDelete deletes, or leaves a tombstone; B writes instead.
func etagDelete(i int, without string, nonced func(*turn, object) object) step {
	if i != 1 && without == grave.key {
		return step{
			send: func(t *turn) message {
				m := message{op: opDelete, cond: ifMatch}
				copy(m.ver[:], t.p.reg[3:])
				return m
			},
			got: ackIfDone,
		}
	}
	// B writes the bytes that were there in the beginning: the version may come back.
	return swap(0, func(t *turn) object {
		if i == 1 {
			return nonced(t, object{})
		}
		return nonced(t, object{set: 8 | t.bit()})
	}, ackIfDone)
}

// createOnce creates an object that must not exist. A second try that is refused may have
// met the first: the object's nonce tells.
func createOnce(without string) []step {
	lost := func(t *turn) int {
		t.note("takes its work for refused")
		if o := t.s.obj[0]; o.there && o.nonce == t.nonce() {
			t.s.blame(dishonestLoss, t.tok(), 0)
		}
		return stop
	}
	return []step{
		{
			send: func(t *turn) message {
				return message{op: opPut, cond: ifAbsent, val: object{tok: t.tok(), nonce: t.nonce()}}
			},
			got: func(t *turn) int {
				switch {
				case t.p.ans.code == done:
					return t.ack()
				case without == belief:
					return lost(t)
				}
				return goOn
			},
		},
		{
			send: func(*turn) message { return message{op: opGet} },
			got: func(t *turn) int {
				if t.p.ans.code == done && t.p.ans.o.nonce == t.nonce() {
					return t.ack()
				}
				if t.p.ans.code == missing {
					return stop // it was there, and is gone: unknown
				}
				return lost(t)
			},
		},
	}
}

// cleaner adds a job that deletes the object.
func (w *world) cleaner() {
	w.prog[clients] = []step{{
		when: func(t *turn) bool { return t.s.obj[0].there },
		send: func(*turn) message { return message{op: opDelete} },
	}}
}

// claimed is compare-and-set on one object whose body holds the token and a nonce: a
// holder raises the token first.
func claimed() strategy {
	var cells []cell
	for _, op := range Operations {
		c := cell{
			strategy: "cas-claim", operation: op,
			build: func(without string) *world { return claimedWorld(op, without) },
		}
		switch op {
		case Delete:
			c.conditions = []condition{grave}
		case Multi:
			c.conditions = []condition{redo}
		case Effect:
			c.conditions = []condition{knows}
		}
		cells = append(cells, c)
	}
	return strategy{"cas-claim", "compare-and-set with the token in the body, claimed first (objguard)", "The body of the object holds the token and a nonce. A holder first writes its token into it, by compare-and-set (the claim), and stops wherever it reads a higher one.", cells}
}

// claim are the steps that raise the token of an object; first is the number of the first
// of them in the program.
func claim(w *world, key uint8, first int, without string) []step {
	look := step{
		send: func(*turn) message { return message{op: opGet, key: key, marks: without == "claim"} },
		got: func(t *turn) int {
			if without != "token" && t.p.ans.o.tok > t.tok() {
				t.note("reads a higher token, and stops")
				return stop
			}
			if without == "claim" {
				keepVersion(w)(t)
				return first + 2
			}
			return keepVersion(w)(t)
		},
	}
	raise := swap(key, (*turn).claimedBody, func(t *turn) int {
		if t.p.ans.code != done {
			return first
		}
		// What the holder has read is what it has claimed.
		o := t.claimedBody()
		o.there = true
		t.p.reg[2] = 1
		v := w.version(o)
		copy(t.p.reg[3:], v[:])
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

// claimedBody is what a claim writes: the token, and what was there.
func (t *turn) claimedBody() object {
	return object{tok: t.tok(), set: t.p.reg[0], nonce: t.nonce() | 1<<6}
}

func claimedWorld(op, without string) *world {
	w := newWorld(namesOf(op)...)
	w.hashed, w.budget, w.tag = true, few, "ETag"
	w.rules = rulesOf(op)
	w.rules.extend = op == Append || op == Overwrite
	if op == Multi {
		w.rules = rules{} // each object has an order of its own; what counts is that they belong together
	}
	for i := range clients {
		body := func(t *turn) object {
			return object{tok: t.tok(), set: t.p.reg[0] | t.bit(), nonce: t.nonce()}
		}
		again := func(t *turn) int {
			if t.p.ans.code == done {
				return t.ack()
			}
			if without == "token" {
				return 0
			}
			// Its own write may have landed: what is there now tells.
			return goOn
		}
		resolve := step{
			send: func(*turn) message { return message{op: opGet} },
			got: func(t *turn) int {
				if t.p.ans.o.tok == t.tok() && t.p.ans.o.nonce == t.nonce() {
					return t.ack()
				}
				return stop
			},
		}
		switch op {
		case Delete:
			if i != 1 {
				body = func(t *turn) object { return object{tok: t.tok(), nonce: t.nonce()} }
			}
			w.prog[i] = append(claim(w, 0, 0, without), swap(0, body, again), resolve)
			if i != 1 && without == grave.key {
				w.prog[i][2] = step{
					send: func(t *turn) message {
						m := message{op: opDelete, cond: ifMatch}
						copy(m.ver[:], t.p.reg[3:])
						return m
					},
					got: ackIfDone,
				}
			}
		case Multi:
			pair := func(t *turn) object { return object{tok: t.tok(), nonce: t.nonce()} }
			// A 412 may be that of its own write, whose answer was lost: it claims once more.
			orClaim := func(first int, then func(t *turn) int) func(t *turn) int {
				return func(t *turn) int {
					if t.p.ans.code == done {
						return then(t)
					}
					return first
				}
			}
			next := func(*turn) int { return goOn }
			w.prog[i] = append(claim(w, 0, 0, without), swap(0, pair, orClaim(0, next)))
			w.prog[i] = append(w.prog[i], claim(w, 1, 3, without)...)
			w.prog[i] = append(w.prog[i], swap(1, pair, orClaim(3, func(t *turn) int { return t.ack() })))
		case Effect:
			w.prog[i] = append(claim(w, 0, 0, without),
				step{do: func(t *turn) int {
					if t.p.reg[0] != 0 {
						return stop
					}
					return goOn
				}},
				step{send: func(*turn) message { return message{op: opEffect, key: 1} }},
				swap(0, body, ackIfDone))
		default:
			w.prog[i] = append(claim(w, 0, 0, without), swap(0, body, again), resolve)
		}
	}
	switch op {
	case Create:
	case Multi:
		w.budget = few
		w.has(0, object{})
		w.has(1, object{})
		w.rest = tornPair
		w.finish = without != redo.key
	case Effect:
		w.has(0, object{})
		w.dedupe = without != knows.key
	default:
		w.has(0, object{})
	}
	return w
}
