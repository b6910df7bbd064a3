package fencing

// lww is a store where the highest timestamp wins, whenever it arrives, as Cassandra.
func lww(clock bool) strategy {
	visible := condition{"visible", "only what is read counts: a write that is answered with success may be invisible, and may hide another that was answered with success"}
	live := condition{"tombstone", "a delete writes a live row that says so: a true tombstone is purged, and then an old write is visible again"}
	key, name := "lww", "last write wins, the token in the high bits of the timestamp (Cassandra)"
	how := "Writes carry a timestamp made of the token and a number within the tenure; the store keeps the value with the highest."
	if clock {
		key, name = "lww-clock", "last write wins, by clocks (Cassandra's default)"
		how = "Writes carry the sender's wall clock as their timestamp. In the model A's clock is ahead."
	}
	var cells []cell
	for _, op := range Operations {
		c := cell{strategy: key, operation: op, build: func(without string) *world { return lwwWorld(op, without, clock) }}
		switch op {
		case Create, Overwrite:
			c.conditions = []condition{visible}
		case Delete:
			c.conditions = []condition{visible, live}
		case Multi:
			c.conditions = []condition{visible, redo}
		case Effect:
			c.conditions = []condition{knows}
		}
		if clock {
			c.conditions = nil
		}
		cells = append(cells, c)
	}
	return strategy{key, name, how, cells}
}

// byClock are the timestamps of clients whose clocks differ.
var byClock = [clients + 1]uint8{0, 9, 5, 7}

func lwwWorld(op, without string, clock bool) *world {
	w := plainWorld(op, without, nil)
	w.rules = rules{visible: true, once: op == Effect, clean: op == Effect}
	if op == Create {
		for i := range clients {
			w.prog[i] = plainly(Overwrite, i, false)
		}
	}
	hidden := op == Append || without == "visible"
	if op == Append {
		// The log is one value: to append is to read and to write.
		for i := range clients {
			w.prog[i] = plainly(Overwrite, i, false)
		}
	}
	if op == Delete && without != "tombstone" {
		for _, i := range []int{0, 2} {
			w.prog[i] = plainly(Overwrite, i, false) // a live row that says "deleted"
		}
	}
	w.special = func(s *state, m *message) (answer, bool) {
		if m.op != opPut && m.op != opDelete {
			return answer{}, true
		}
		o := &s.obj[m.key]
		ts := m.tok
		if clock {
			ts = byClock[m.tok]
		}
		if op == Effect {
			w.effect(s, m.tok)
		}
		if ts < o.nonce {
			if hidden {
				s.mon.missed |= 1 << m.from // it is answered with success, and nobody will see it
			}
			return answer{code: done}, true
		}
		if hidden && o.tok != m.tok && s.mon.acked&o.set&^m.val.set != 0 {
			s.blame(lostUpdate, m.tok, 0)
		}
		newest := s.mon.top
		if op == Multi {
			newest = o.tok
		}
		if m.tok < newest {
			s.blame(notVisible, newest, m.tok)
		}
		s.mon.top = max(s.mon.top, m.tok)
		*o = object{there: m.op == opPut, tok: m.tok, set: m.val.set, nonce: ts}
		return answer{code: done}, true
	}
	w.says = func(s *state, m *message, a answer) string {
		if m.op == opPut && s.obj[m.key].tok > m.tok && !clock && op != Effect {
			return ", but never to be read: what is there has a higher timestamp"
		}
		return ""
	}
	if op == Delete && without == "tombstone" {
		w.env = append(w.env, env{"the tombstone is purged (gc_grace is over)", func(s *state) bool {
			return !s.obj[0].there && s.obj[0].nonce > 0
		}, func(s *state) { s.obj[0] = object{} }, nil})
	}
	return w
}
