package fencing

import "fmt"

// idem is an interface of others that remembers an idempotency key and carries out each
// key once.
func idem(byToken bool) strategy {
	keeps := condition{"keeps", "keys are remembered for longer than any request can be repeated or late"}
	frozen := condition{"frozen", "the body was stored with the key before the first send, and every holder sends that body"}
	alone := condition{"alone", "the operations do not depend on each other's order"}
	key, name := "idem-op", "an idempotency key made from the operation"
	how := "The key names what is done (invoice 42), not who does it: the receiver does it once, whichever holder asks."
	if byToken {
		key, name, how = "idem-token", "an idempotency key made from the token", "The key names the holder's token: each holder has its own."
	}
	var cells []cell
	for _, op := range Operations {
		c := cell{strategy: key, operation: op, build: func(without string) *world { return idemWorld(op, without, byToken) }}
		c.conditions = []condition{keeps, frozen}
		switch op {
		case Overwrite, Append, Delete:
			c.conditions = []condition{alone}
			c.build = func(without string) *world { return inSequence(without) }
		case Multi:
			c.build, c.conditions, c.none = nil, nil, "one key covers one request"
		}
		if byToken {
			c.conditions = nil
			if op != Effect && op != Create {
				c.build, c.none = nil, "it already fails where it is meant for: see effect"
			}
		}
		cells = append(cells, c)
	}
	return strategy{key, name, how, cells}
}

// idemWorld has all holders carry out the same operation.
func idemWorld(op, without string, byToken bool) *world {
	w := newWorld("record", "a charge")
	if op == Create {
		w.name[1] = "POST /things"
	}
	w.rules = rules{once: true}
	w.dedupe = true
	w.keyed = func(m *message) string {
		if byToken {
			return "the key of token " + fmt.Sprint(m.arg)
		}
		return "the operation's key"
	}
	for i := range clients {
		ask := step{
			send: func(t *turn) message {
				m := message{op: opEffect, key: 1, val: object{set: t.tok()}}
				if without != "frozen" {
					m.val.set = t.p.reg[0]
				}
				if byToken {
					m.arg = t.tok()
				}
				return m
			},
			got: func(t *turn) int {
				sent := t.tok()
				if without != "frozen" {
					sent = t.p.reg[0]
				}
				if t.p.ans.o.set != sent {
					t.s.blame(otherBody, t.tok(), 0)
				}
				return t.ack()
			},
		}
		if without == "frozen" {
			w.prog[i] = []step{ask}
			continue
		}
		w.prog[i] = []step{
			{send: func(t *turn) message {
				return message{op: opPut, cond: ifAbsent, val: object{set: t.tok()}}
			}},
			{
				send: func(*turn) message { return message{op: opGet} },
				got: func(t *turn) int {
					t.p.reg[0] = t.p.ans.o.set
					return goOn
				},
			},
			ask,
		}
	}
	if without == "keeps" {
		w.env = append(w.env, env{"the receiver forgets the key", func(s *state) bool { return s.sys.keys != 0 && !s.sys.spent }, func(s *state) { s.sys.keys, s.sys.spent = 0, true }, nil})
	}
	return w
}

// inSequence has each holder carry out an operation of its own, whose order matters
// unless it is said not to.
func inSequence(without string) *world {
	w := newWorld("record", "the request")
	w.rules = rules{order: without == "alone"}
	w.dedupe = true
	for i := range clients {
		w.prog[i] = []step{{
			send: func(t *turn) message {
				return message{op: opEffect, key: 1, arg: t.tok(), val: object{set: t.tok()}}
			},
			got: func(t *turn) int { return t.ack() },
		}}
	}
	// Each key takes effect once at most, whatever the order.
	w.check = func(s *state) {
		for i := range clients {
			if s.mon.acked&(1<<i) != 0 && s.sys.keys&(1<<(i+1)) == 0 {
				s.blame(dishonestAck, uint8(i+1), 0)
			}
		}
	}
	return w
}
