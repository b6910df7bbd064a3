package fencing

// The operations of the table: what a holder does once it has taken over.
const (
	Create    = "create"
	Overwrite = "overwrite"
	Append    = "append"
	Delete    = "delete"
	Multi     = "multi"
	Effect    = "effect"
)

// Operations are in the order of the table's columns.
var Operations = []string{Create, Overwrite, Append, Delete, Multi, Effect}

// condition is an assumption under which a cell is safe. The checker runs the cell with
// all of them, and once without each.
type condition struct {
	key  string // what build is given to leave it out
	text string // completes "safe if"
}

// cell is a strategy for an operation.
type cell struct {
	strategy, operation string
	build               func(without string) *world
	conditions          []condition
	none                string // why the strategy does not apply; build is nil then
}

// strategy is a row of the table.
type strategy struct {
	key   string
	name  string
	how   string // one sentence: what is done
	cells []cell
}

// few is what may go wrong in a world of long programs, which has too many states otherwise.
var few = budget{crashes: 1, repeats: 1, losses: 1, faults: 1}

// usual is what may go wrong in a run.
var usual = budget{crashes: 1, repeats: 1, losses: 1, faults: 2}

// newWorld is a world that things may go wrong in.
func newWorld(names ...string) *world {
	w := &world{budget: usual}
	copy(w.name[:], names)
	return w
}

// has puts an object into the store before anything happens.
func (w *world) has(key int, o object) {
	if w.versions {
		w.begin.gen++
		o.gen = w.begin.gen
	}
	o.there = true
	w.begin.obj[key] = o
}

// read is a GET with which a holder takes over; got decides what follows.
func read(key uint8, got func(t *turn) int) step {
	return step{
		send: func(*turn) message { return message{op: opGet, key: key, marks: true} },
		got:  got,
	}
}

// goIfDone goes on when a request was carried out, and stops when it was not.
func goIfDone(t *turn) int {
	if t.p.ans.code == done {
		return goOn
	}
	return stop
}

// ackIfDone takes the work for done when the request was carried out.
func ackIfDone(t *turn) int {
	if t.p.ans.code == done {
		return t.ack()
	}
	return stop
}

// keep stores what the answer contains in the first local.
func keep(t *turn) int {
	if t.p.ans.code == refused {
		return stop
	}
	t.p.reg[0] = t.p.ans.o.set
	return goOn
}

// plainly are the steps of an operation by a client that sends no conditions: a read,
// then the write. B writes where the others delete.
func plainly(operation string, i int, pair bool) []step {
	put := func(key uint8, got func(*turn) int) step {
		return step{
			send: func(t *turn) message {
				return message{op: opPut, key: key, val: object{tok: t.tok(), set: t.p.reg[0] | t.bit()}}
			},
			got: got,
		}
	}
	ifThere := func(there bool) func(t *turn) int {
		return func(t *turn) int {
			if t.p.ans.code == refused || (t.p.ans.code == done) != there {
				return stop
			}
			return goOn
		}
	}
	switch operation {
	case Create:
		return []step{read(0, ifThere(false)), put(0, ackIfDone)}
	case Overwrite:
		return []step{read(0, keep), put(0, ackIfDone)}
	case Append:
		return []step{read(0, keep), {
			send: func(t *turn) message { return message{op: opAppend, val: object{set: t.bit()}} },
			got:  ackIfDone,
		}}
	case Delete:
		if i == 1 {
			return []step{read(0, keep), put(0, ackIfDone)}
		}
		return []step{read(0, ifThere(true)), {
			send: func(*turn) message { return message{op: opDelete} },
			got:  ackIfDone,
		}}
	case Multi:
		if pair {
			return []step{read(0, keep), {
				send: func(t *turn) message {
					return message{op: opPair, val: object{tok: t.tok(), set: t.p.reg[0] | t.bit()}}
				},
				got: ackIfDone,
			}}
		}
		return []step{read(0, keep), put(0, goIfDone), put(1, ackIfDone)}
	case Effect:
		return []step{
			read(0, func(t *turn) int {
				if t.p.ans.code == refused || t.p.ans.o.set != 0 {
					return stop
				}
				return goOn
			}),
			{
				send: func(*turn) message { return message{op: opEffect, key: 1} },
				got: func(t *turn) int {
					if t.p.ans.code == refused {
						return stop
					}
					return goOn
				},
			},
			put(0, ackIfDone),
		}
	}
	panic("fencing: no such operation: " + operation)
}

// namesOf are the objects of an operation.
func namesOf(operation string) []string {
	switch operation {
	case Append:
		return []string{"log"}
	case Multi:
		return []string{"x", "y"}
	case Effect:
		return []string{"done-flag", "a charge"}
	}
	return []string{"x"}
}

// rulesOf are the promises of an operation of a holder that takes over, reads and acts.
func rulesOf(operation string) rules {
	return rules{order: true, clean: true, extend: operation == Overwrite, once: operation == Effect}
}

// tornPair blames two objects that do not belong together.
func tornPair(s *state) (fault, uint8) {
	if s.obj[0].tok != s.obj[1].tok {
		return torn, 0
	}
	return none, 0
}

// The conditions that many cells share.
var (
	redo   = condition{"redo", "a pair that is half written is written again, by its writer or the next holder, before anybody reads it"}
	knows  = condition{"dedupe", "the receiver knows the operation again (an operation id as its idempotency key) and drops the repeat"}
	wholly = condition{"delay", "the lock-delay is longer than any request can take, on the network and in the store"}
)

// plainWorld is a world of clients that take over by the given steps, then do the
// operation without conditions.
func plainWorld(operation, without string, before func(i int) []step) *world {
	w := newWorld(namesOf(operation)...)
	w.rules = rulesOf(operation)
	for i := range clients {
		if before != nil {
			w.prog[i] = append(w.prog[i], before(i)...)
		}
		w.prog[i] = append(w.prog[i], plainly(operation, i, false)...)
	}
	switch operation {
	case Overwrite, Append, Delete:
		w.has(0, object{})
	case Multi:
		w.budget = few
		w.has(0, object{})
		w.has(1, object{})
		w.rest = tornPair
		w.finish = without != redo.key
	case Effect:
		w.has(0, object{}) // the flag is there, and not set
		w.dedupe = without != knows.key
	}
	return w
}

// gate is a family of strategies: the same programs behind another check.
type gate struct {
	before     func(operation, without string) func(i int) []step
	set        func(w *world, operation, without string)
	conditions func(operation string) []condition
	none       map[string]string
}

// cellsOf makes the cells of a gate.
func (g gate) cellsOf(key string) []cell {
	var cells []cell
	for _, op := range Operations {
		c := cell{strategy: key, operation: op}
		if why := g.none[op]; why != "" {
			c.none = why
			cells = append(cells, c)
			continue
		}
		c.build = func(without string) *world {
			var before func(i int) []step
			if g.before != nil {
				before = g.before(op, without)
			}
			w := plainWorld(op, without, before)
			if g.set != nil {
				g.set(w, op, without)
			}
			return w
		}
		if g.conditions != nil {
			c.conditions = g.conditions(op)
		}
		switch op {
		case Multi:
			c.conditions = append(c.conditions, redo)
		case Effect:
			c.conditions = append(c.conditions, knows)
		}
		cells = append(cells, c)
	}
	return cells
}

// writes reports whether a request changes the store.
func (m *message) writes() bool {
	switch m.op {
	case opPut, opPair, opAppend, opDelete:
		return true
	}
	return false
}
