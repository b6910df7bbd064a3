package fencing

// outbox: decisions are rows in a database that checks the token; relays send them.
func outbox() strategy {
	dedupe := condition{"dedupe", "the receiver drops what it has had (the decision's id as an idempotency key)"}
	var cells []cell
	for _, op := range Operations {
		cells = append(cells, cell{
			strategy: "outbox", operation: op, conditions: []condition{dedupe},
			build: func(without string) *world { return outboxWorld(op, without) },
		})
	}
	return strategy{"outbox", "an outbox in a guarded database", "A holder writes what is to be done into a database that checks its token. Relays, which need no lock, send it in the order of the rows and again until it is answered.", cells}
}

func outboxWorld(op, without string) *world {
	w := newWorld(namesOf(op)...)
	w.budget, w.relays = few, true
	if op == Effect {
		w.name[0] = "a charge"
	}
	if op != Effect {
		w.rules.order = true
	}
	for i := range clients {
		w.prog[i] = []step{{
			send: func(*turn) message { return message{op: opDecide} },
			got:  ackIfDone,
		}}
	}
	emit := func(key uint8) step {
		return step{send: func(t *turn) message {
			return message{op: opEffect, key: key, arg: t.p.reg[0], val: object{tok: t.p.reg[0]}}
		}}
	}
	relay := []step{
		{
			when: func(t *turn) bool { return t.s.sys.sent < t.s.sys.queued },
			send: func(*turn) message { return message{op: opTake} },
			got: func(t *turn) int {
				if t.p.ans.code != done {
					return 0
				}
				t.p.reg[0], t.p.reg[1] = t.p.ans.o.tok, t.p.ans.o.set
				return goOn
			},
		},
		emit(0),
	}
	if op == Multi {
		relay = append(relay, emit(1))
	}
	relay = append(relay, step{
		send: func(t *turn) message { return message{op: opAdvance, arg: t.p.reg[1] + 1} },
		got: func(t *turn) int {
			t.p.reg = [registers]uint8{}
			return 0
		},
	})
	w.prog[clients], w.prog[clients+1] = relay, relay
	if op == Multi {
		w.rest = tornPair
	}
	w.special = func(s *state, m *message) (answer, bool) {
		switch m.op {
		case opDecide:
			for _, t := range s.sys.queue[:s.sys.queued] {
				if t == m.tok {
					return answer{code: done}, true // one row for each operation
				}
			}
			if m.tok < s.sys.seen[0] && without != "guard" {
				return answer{code: refused}, true
			}
			s.sys.seen[0] = max(s.sys.seen[0], m.tok)
			s.sys.queue[s.sys.queued] = m.tok
			s.sys.queued++
			return answer{code: done}, true
		case opTake:
			if s.sys.sent >= s.sys.queued {
				return answer{code: missing}, true
			}
			return answer{code: done, o: object{tok: s.sys.queue[s.sys.sent], set: s.sys.sent}}, true
		case opAdvance:
			s.sys.sent = max(s.sys.sent, m.arg)
			return answer{code: done}, true
		case opEffect:
			return w.receives(s, m, op, without), true
		}
		return answer{}, true
	}
	return w
}

// receives has the receiver carry out a decision: the token in the body is that of its
// decider.
func (w *world) receives(s *state, m *message, op, without string) answer {
	bit := uint8(1) << m.arg
	if m.key == 1 {
		bit <<= 4
	}
	if s.sys.keys&bit != 0 {
		if without != "dedupe" {
			return answer{code: replay}
		}
		if op == Effect || op == Append {
			s.blame(twice, 0, 0)
		}
	}
	s.sys.keys |= bit
	o := &s.obj[m.key]
	*o = object{there: op != Delete || m.arg == 2, tok: m.arg}
	w.effect(s, m.arg)
	return answer{code: done}
}
