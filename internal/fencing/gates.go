package fencing

import "fmt"

// nothing: requests carry no condition at all.
func nothing() strategy {
	return strategy{"nothing", "the lock alone", "Requests carry no condition, and nothing checks them.", gate{}.cellsOf("nothing")}
}

// token: the resource itself checks the token, atomically with the effect.
func token() strategy {
	g := gate{set: func(w *world, op, without string) {
		if op == Multi {
			for i := range clients {
				w.prog[i] = plainly(op, i, true)
			}
			w.finish = false
		}
		w.admit = func(s *state, m *message) verdict {
			if m.op == opEffect || without == "claim" && m.op == opGet {
				return passes
			}
			if m.tok < s.sys.seen[0] {
				return denied
			}
			s.sys.seen[0] = m.tok
			return passes
		}
		if without == "mark" {
			w.env = append(w.env, env{"the guard's row is collected, or restored from a backup", once, func(s *state) {
				s.sys.spent, s.sys.seen[0] = true, 0
			}, nil})
		}
	}}
	cells := g.cellsOf("token")
	for i := range cells {
		if cells[i].operation == Multi {
			cells[i].conditions = nil // one transaction
		}
	}
	return strategy{"token", "the resource checks the token (a guard)", "The resource refuses a token below the highest that it has seen, in the same transaction as the write. The claim raises the mark before anything is read.", cells}
}

func once(s *state) bool { return !s.sys.spent }

// lease: the store's own lease, as Azure's on a blob.
func lease() strategy {
	change := condition{"change", "a holder takes the store's lease by changing the id that is in place, and stops when that id is of a higher token; nobody breaks it, since a late break or a late acquire gives it back to an old holder"}
	infinite := condition{"infinite", "the lease is infinite: it never lapses"}
	tombstone := condition{"tombstone", "a delete leaves an empty object behind: one that is not there cannot be leased"}
	g := gate{
		none: map[string]string{Create: "only a blob that exists can be leased; use create-if-absent"},
		conditions: func(op string) []condition {
			if op == Delete {
				return []condition{change, infinite, tombstone}
			}
			return []condition{change, infinite}
		},
		before: func(op, without string) func(int) []step {
			return func(i int) []step {
				see := step{send: func(*turn) message { return message{op: opSeeLease} }, got: func(t *turn) int {
					switch in := t.p.ans.o.tok; {
					case in > t.tok():
						return stop
					case in == t.tok():
						return int(t.p.pc) + 2 // taken already; the answer was lost
					default:
						t.p.reg[5] = in
						return goOn
					}
				}}
				acquire := step{send: func(t *turn) message { return message{op: opAcquireLease, arg: t.p.reg[5]} }, got: func(t *turn) int {
					switch t.p.ans.code {
					case done:
						return goOn
					case refused:
						return int(t.p.pc) - 1 // somebody else took it, or this is a repeat
					}
					return stop
				}}
				ask := step{send: func(*turn) message { return message{op: opVerify} }, got: goIfDone}
				switch {
				case without == "change":
					return []step{acquire, ask}
				case without == "tombstone" && i == 1:
					return []step{{
						send: func(t *turn) message {
							return message{op: opPut, cond: ifAbsent, val: object{tok: t.tok()}, arg: 9}
						},
						got: func(*turn) int { return goOn },
					}, see, acquire}
				}
				return []step{see, acquire}
			}
		},
		set: func(w *world, op, without string) {
			w.budget = few
			w.special = func(s *state, m *message) (answer, bool) {
				switch m.op {
				case opSeeLease:
					return answer{code: done, o: object{tok: s.sys.lease}}, true
				case opAcquireLease:
					switch {
					case !s.obj[0].there:
						return answer{code: missing}, true
					case without != "change" && s.sys.lease != m.arg:
						return answer{code: refused}, true
					}
					s.sys.lease = m.tok
					return answer{code: done}, true
				case opVerify:
					return newest(s, m), true
				}
				return answer{}, true
			}
			w.admit = func(s *state, m *message) verdict {
				if m.writes() && m.arg != 9 && s.sys.lease != m.tok {
					return denied
				}
				return passes
			}
			if without == "infinite" {
				w.env = append(w.env, env{"the store's lease lapses", once, func(s *state) { s.sys.spent, s.sys.lease = true, 0 }, nil})
			}
			if op == Delete && without != "tombstone" {
				for _, i := range []int{0, 2} {
					last := len(w.prog[i]) - 1
					w.prog[i][last].send = func(t *turn) message {
						return message{op: opPut, val: object{tok: t.tok(), nonce: 1}}
					}
				}
			}
			if op == Delete && without == "tombstone" {
				serve := w.special
				w.special = func(s *state, m *message) (answer, bool) {
					if m.op == opDelete {
						s.sys.lease = 0 // it goes with the blob
					}
					return serve(s, m)
				}
			}
		},
	}
	return strategy{"lease", "the store's own lease (Azure Blob)", "The holder takes the blob's lease, under an id that is made from its token, and sends the id with every write: the store refuses all other writers. The blob says whose id is in place. For several blobs, one lease that all of them are written under.", g.cellsOf("lease")}
}

// newest answers whether the lock service still has the token as its newest.
func newest(s *state, m *message) answer {
	if s.granted == m.tok {
		return answer{code: done}
	}
	return answer{code: refused}
}

// opener: whoever opened last may write.
func opener() strategy {
	verify := condition{"verify", "after opening, the holder asks the lock service whether its token is still the newest, each time, and only then reads and writes"}
	g := gate{
		conditions: func(string) []condition { return []condition{verify} },
		before: func(_, without string) func(int) []step {
			return func(int) []step {
				open := step{send: func(*turn) message { return message{op: opOpen} }, got: func(t *turn) int {
					t.p.reg[5] = t.p.ans.o.set
					return goOn
				}}
				ask := step{send: func(*turn) message { return message{op: opVerify} }, got: goIfDone}
				switch without {
				case "verify":
					return []step{open}
				case "verify first":
					return []step{ask, open}
				}
				return []step{open, ask}
			}
		},
		set: func(w *world, op, without string) {
			w.budget = few
			if op == Multi {
				w.budget = budget{crashes: 1, faults: 1}
			}
			before := 2
			if without == "verify" {
				before = 1
			}
			w.special = func(s *state, m *message) (answer, bool) {
				switch m.op {
				case opOpen:
					s.sys.epoch++
					return answer{code: done, o: object{set: s.sys.epoch}}, true
				case opVerify:
					return newest(s, m), true
				}
				return answer{}, true
			}
			for i := range clients {
				for k := range w.prog[i] {
					send, got := w.prog[i][k].send, w.prog[i][k].got
					w.prog[i][k].send = func(t *turn) message {
						m := send(t)
						if m.writes() {
							m.arg = t.p.reg[5]
						}
						return m
					}
					if k < before {
						continue
					}
					w.prog[i][k].got = func(t *turn) int {
						if t.p.ans.code == refused {
							return 0 // a late open of another took the epoch: it opens and asks again
						}
						return got(t)
					}
				}
			}
			w.admit = func(s *state, m *message) verdict {
				if m.writes() && m.arg != s.sys.epoch {
					return denied
				}
				return passes
			}
		},
	}
	return strategy{"opener", "an epoch that the last opener owns (Kafka, BookKeeper)", "Opening raises an epoch, and the store refuses writes of lower ones. The order is that of opening, not of the tokens.", g.cellsOf("opener")}
}

// proxies: all requests pass one process that checks the token, or two.
func proxies(two bool) strategy {
	through := condition{"through", "every request passes the proxy"}
	patient := condition{"patient", "it never gives up on what it has admitted before the resource has answered"}
	closed := condition{"closed", "after a restart it still knows its mark, and stays closed until what it had admitted must have ended"}
	leg := condition{"leg", "nothing repeats a request between the proxy and the resource"}
	shared := condition{"shared", "the replicas share the mark and the list of what is admitted, or all requests of a resource go to one of them"}
	conditions := []condition{through, patient, closed, leg}
	if two {
		conditions = []condition{shared, through, patient, closed, leg}
	}
	g := gate{
		conditions: func(string) []condition { return conditions },
		set: func(w *world, _, without string) {
			w.legRepeats, w.giveUps = without == "leg", without == "patient"
			replica := func(m *message) uint8 {
				if two && without == "shared" {
					return m.from & 1
				}
				return 0
			}
			w.admit = func(s *state, m *message) verdict {
				if without == "through" && m.from == 0 && m.op != opGet {
					return passes
				}
				r := replica(m)
				if m.tok < s.sys.seen[r] {
					return denied
				}
				if without != "drain" && s.holds(func(o *message) bool {
					return o.stage == admitted && o.tok < m.tok && replica(o) == r
				}) {
					return blocked
				}
				s.sys.seen[r] = m.tok
				if m.op == opGet {
					return passes
				}
				return taken
			}
			if two && without == "shared" {
				through := func(_ *state, m *message) string { return fmt.Sprintf(" by replica %d", replica(m)+1) }
				w.passed = through
				w.says = func(s *state, m *message, a answer) string {
					if m.stage == admitted {
						return "" // it was told at the admission
					}
					return "," + through(s, m)
				}
			}
			if without == "closed" {
				w.env = append(w.env, env{"the proxy restarts and has forgotten its mark and what it had admitted", once, func(s *state) {
					s.sys.spent, s.sys.seen = true, [2]uint8{}
					for j := range s.net[:s.n] {
						if s.net[j].stage == admitted {
							s.net[j].stage = abandoned
						}
					}
				}, nil})
			}
		},
	}
	if two {
		return strategy{"proxy-two", "a proxy that checks the token, two replicas", "Two proxies behind a load balancer, each of which checks the token.", g.cellsOf("proxy-two")}
	}
	return strategy{"proxy", "a proxy that checks the token, one instance (pawl guard proxy)", "A new token is admitted when all requests under lower ones have ended; then lower ones are refused.", g.cellsOf("proxy")}
}
