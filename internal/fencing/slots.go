package fencing

import "math/bits"

// The slots of a log, and the boundary behind which slots were deleted.
const (
	slotsThere = 8
	boundAt    = 8
)

// slotsKind is what happens to old slots.
type slotsKind uint8

const (
	keptForEver slotsKind = iota
	deletedPlainly
	deletedBehindBoundary
)

// slots is a log or a set of names that are only ever created.
func slots(key, name, how string, kind slotsKind) strategy {
	immutable := "a name that was created is never written again; use the manifest, or compare-and-set"
	var cells []cell
	for _, op := range Operations {
		c := cell{strategy: key, operation: op}
		switch op {
		case Overwrite, Delete:
			c.none = immutable
		case Create:
			c.build = func(without string) *world { return createWorld(without, kind) }
		case Append:
			c.build = func(without string) *world { return slotsWorld(without, kind) }
		case Multi:
			c.build = func(string) *world { return createTwoWorld() }
		case Effect:
			c.build = func(without string) *world {
				w := plainWorld(Effect, without, nil)
				w.rules.order = false
				return w
			}
			c.conditions = []condition{knows}
		}
		cells = append(cells, c)
	}
	return strategy{key, name, how, cells}
}

// createWorld has all holders create the same name. With a boundary, the name has a
// number that the boundary may pass.
func createWorld(without string, kind slotsKind) *world {
	w := newWorld("slot-1")
	w.budget = few
	w.rules = rules{order: kind != deletedBehindBoundary}
	for i := range clients {
		w.prog[i] = createOnce(without)
		if kind == deletedBehindBoundary {
			w.prog[i] = createBehind(without)
		}
	}
	w.collect(without, kind, 1)
	return w
}

// createBehind creates, then looks whether the boundary has passed.
func createBehind(without string) []step {
	create := step{
		send: func(t *turn) message {
			return message{op: opPut, cond: ifAbsent, val: object{tok: t.tok(), nonce: t.nonce()}}
		},
		got: func(t *turn) int {
			if t.p.ans.code != done {
				return stop
			}
			t.p.reg[0] = 0
			if t.p.ans.behind {
				t.p.reg[0] = 1
			}
			return goOn
		},
	}
	look := step{
		send: func(*turn) message { return message{op: opGet, key: boundAt} },
		got: func(t *turn) int {
			if t.p.ans.code == done && t.p.ans.o.set > 0 {
				t.note("is behind the boundary, and takes its work for refused")
				return stop
			}
			return goOn
		},
	}
	acks := step{do: func(t *turn) int {
		if t.p.reg[0] == 1 {
			t.s.blame(dishonestAck, t.tok(), 0)
		}
		return t.ack()
	}}
	if without == "check first" {
		return []step{look, create, acks}
	}
	return []step{create, look, acks}
}

// createTwoWorld has all holders create two names that belong together.
func createTwoWorld() *world {
	w := newWorld("x", "y")
	w.finish = true
	for i := range clients {
		for key := range uint8(2) {
			w.prog[i] = append(w.prog[i], step{send: func(t *turn) message {
				return message{op: opPut, key: key, cond: ifAbsent, val: object{tok: t.tok()}}
			}})
		}
	}
	w.rest = tornPair
	return w
}

// collect adds the collector. Once there are so many slots it deletes the newest that
// another follows, or the only one; older ones make no difference.
func (w *world) collect(without string, kind slotsKind, follow int) {
	if kind == keptForEver {
		return
	}
	if kind == deletedBehindBoundary {
		w.name[boundAt] = "boundary"
	}
	old := func(s *state) int {
		var there uint8
		for k := range slotsThere {
			if s.obj[k].there {
				there |= 1 << k
			}
		}
		if bits.OnesCount8(there) < follow {
			return -1
		}
		newest := bits.Len8(there) - 1
		if follow == 1 {
			return newest
		}
		return bits.Len8(there&^(1<<newest)) - 1
	}
	see := step{
		when: func(t *turn) bool { return old(t.s) >= 0 },
		do: func(t *turn) int {
			t.p.reg[0] = uint8(old(t.s))
			return goOn
		},
	}
	raise := step{send: func(t *turn) message {
		return message{op: opPut, key: boundAt, val: object{set: t.p.reg[0] + 1}}
	}}
	remove := step{send: func(t *turn) message { return message{op: opDelete, key: t.p.reg[0]} }}
	switch {
	case kind == deletedPlainly:
		w.prog[clients] = []step{see, remove}
	case without == "boundary late":
		w.prog[clients] = []step{see, remove, raise}
	default:
		w.prog[clients] = []step{see, raise, remove}
	}
}

// slotsWorld is a log: a new holder puts a fence into the next free slot, and its entries
// behind it.
func slotsWorld(without string, kind slotsKind) *world {
	w := newWorld("slot-1", "slot-2", "slot-3", "slot-4", "slot-5", "slot-6", "slot-7", "slot-8")
	w.budget = few
	w.rules = rules{order: kind != deletedBehindBoundary, clean: kind != deletedBehindBoundary}
	for i := range clients {
		w.prog[i] = slotsProgram(without, kind)
	}
	if kind == deletedBehindBoundary {
		// The third holder takes over, and no more: there are too many states otherwise.
		w.takesOver = true
		w.prog[2][1].got = func(t *turn) int {
			if t.p.ans.code == done {
				return stop
			}
			return 3
		}
	}
	w.collect(without, kind, 3)
	return w
}

const (
	slotNext   = iota // local: the slot that is tried
	slotBehind        // local: whether it was behind the boundary
)

func slotsProgram(without string, kind slotsKind) []step {
	list := step{
		send: func(*turn) message { return message{op: opList, marks: without == "fence"} },
		got: func(t *turn) int {
			n := bits.Len8(t.p.ans.o.set)
			switch {
			case without == "fence":
				t.p.reg[slotNext] = uint8(n)
				return 2
			case n == 0 || without == "last":
				t.p.reg[slotNext] = uint8(n)
				return goOn
			}
			t.p.reg[slotNext] = uint8(n - 1) // the newest slot tells whether the holder is late
			return 3
		},
	}
	// try creates the slot, and on 412 looks at what is there.
	try := func(fence bool, look int, next func(t *turn) int) step {
		return step{
			send: func(t *turn) message {
				set := t.bit()
				if fence {
					set = 0
				}
				return message{op: opPut, key: t.p.reg[slotNext], cond: ifAbsent, marks: fence, val: object{tok: t.tok(), set: set}}
			},
			got: func(t *turn) int {
				if t.p.ans.code == done {
					t.p.reg[slotBehind] = 0
					if t.p.ans.behind {
						t.p.reg[slotBehind] = 1
					}
					return next(t)
				}
				return look
			},
		}
	}
	// seen looks into a slot that another has.
	seen := func(back int) step {
		return step{
			send: func(t *turn) message { return message{op: opGet, key: t.p.reg[slotNext]} },
			got: func(t *turn) int {
				if t.p.ans.o.tok > t.tok() && without != "token" {
					t.note("finds a slot of a higher token, and stops")
					return stop
				}
				if t.p.reg[slotNext] == slotsThere-1 {
					return stop
				}
				t.p.reg[slotNext]++
				return back
			},
		}
	}
	acks := func(t *turn) int {
		if t.p.reg[slotBehind] == 1 {
			t.s.blame(dishonestAck, t.tok(), 0)
		}
		return t.ack()
	}
	after := acks
	if kind == deletedBehindBoundary {
		after = func(*turn) int { return 5 }
	}
	return []step{
		list,
		try(true, 3, func(t *turn) int {
			if t.p.reg[slotNext] == slotsThere-1 {
				return stop
			}
			t.p.reg[slotNext]++
			return 2
		}),
		try(false, 4, after),
		seen(1),
		seen(2),
		{
			send: func(*turn) message { return message{op: opGet, key: boundAt} },
			got: func(t *turn) int {
				if t.p.ans.code == done && t.p.ans.o.set > t.p.reg[slotNext] {
					t.note("is behind the boundary, and takes its work for refused")
					return stop
				}
				return acks(t)
			},
		},
	}
}
