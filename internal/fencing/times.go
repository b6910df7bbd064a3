package fencing

import "fmt"

// waitOut: the next holder is granted only when what the old one sent has ended.
func waitOut() strategy {
	own := condition{"stop", "a holder cannot send after its own deadline, not even when it is paused between looking at its clock and sending"}
	g := gate{
		conditions: func(string) []condition { return []condition{own, wholly} },
		set: func(w *world, _, without string) {
			w.maySend = func(s *state, i int) bool { return int(s.sys.ended) <= i }
			w.pauses = without == "stop"
			w.mayStart = func(s *state, i int) bool {
				return i == 0 || int(s.sys.ended) >= i && (without == "delay" || !s.holds(func(m *message) bool { return int(m.tok) <= i }))
			}
			w.env = append(w.env, env{
				"the lease of ",
				func(s *state) bool { return s.sys.ended < clients-1 && s.granted > s.sys.ended },
				func(s *state) { s.sys.ended++ },
				func(s *state) string {
					return fmt.Sprintf("%s ends, and %s is granted", letter(s.sys.ended), letter(s.sys.ended+1))
				},
			})
		},
	}
	return strategy{"wait-out", "wait the old holder out (lock-delay)", "The next holder is granted a lock-delay after the old one's deadline.", g.cellsOf("wait-out")}
}

// clockwork is the arithmetic of deadlines, in ticks.
type clockwork struct {
	skew   uint8 // how far the store's clock may be behind at most
	upload uint8 // from the admission of a write to its effect, at most
	delay  uint8 // the lock-delay
	holder bool  // the holder's clock is looked at, when it sends, not the store's
}

func (c clockwork) starts(i int) uint8 {
	return uint8(i) * (1 + c.delay)
}

// notAfter is when a holder's lease ends; that of the last is renewed all the time.
func (c clockwork) notAfter(tok uint8) uint8 {
	if tok == clients {
		return renewed
	}
	return c.starts(int(tok)-1) + 1
}

// renewed is after everything.
const renewed = 100

// set gives a world its clock and its store the check.
func (c clockwork) set(w *world) {
	end := max(c.starts(clients-1), c.notAfter(clients-1)+c.skew+c.upload+1)
	w.mayStart = func(s *state, i int) bool { return s.sys.now >= c.starts(i) }
	w.admit = func(s *state, m *message) verdict {
		switch {
		case !m.writes():
			return passes
		case !c.holder && s.sys.now > s.sys.skew+c.notAfter(m.tok):
			return denied
		case c.upload == 0:
			return passes
		}
		m.until = s.sys.now + c.upload
		return taken
	}
	w.passed = func(s *state, m *message) string {
		return fmt.Sprintf(" (the store's clock says %d)", s.sys.now-min(s.sys.now, s.sys.skew))
	}
	if c.holder {
		w.maySend = func(s *state, i int) bool { return s.sys.now <= c.notAfter(uint8(i+1)) }
	}
	w.env = append(w.env,
		env{"time goes by", func(s *state) bool {
			return s.sys.now < end && !s.holds(func(m *message) bool { return m.stage == admitted && m.until <= s.sys.now })
		}, func(s *state) { s.sys.now++ }, c.tick},
		env{"the store's clock falls behind", func(s *state) bool { return s.sys.skew < c.skew && s.sys.now == 0 }, func(s *state) { s.sys.skew++ }, nil},
	)
}

// tick says what a moment means for the leases.
func (c clockwork) tick(s *state) string {
	text := fmt.Sprintf(": it is %d", s.sys.now)
	for i := range uint8(clients) {
		if s.sys.now == c.notAfter(i+1) {
			text += fmt.Sprintf(", the deadline of %s", letter(i+1))
		}
		if s.sys.now == c.starts(int(i)) {
			text += fmt.Sprintf(", %s is granted", letter(i+1))
		}
	}
	return text
}

// deadline: the write carries a time after which the store refuses it.
func deadline() strategy {
	short := condition{"short", "the store's clock skew plus the longest time from a write's admission to its effect (an upload is admitted once) is less than the lock-delay"}
	ends := condition{"ends", "no credential of a holder is valid beyond its lease, and it can get no new one"}
	g := gate{
		conditions: func(op string) []condition { return []condition{short, ends} },
		set: func(w *world, _, without string) {
			c := clockwork{skew: 1, upload: 1, delay: 3}
			if without == "short" {
				c.delay = 2
			}
			if without == "holder" {
				c.holder = true
			}
			w.budget = few
			c.set(w)
			if without == "ends" {
				admit := w.admit
				w.admit = func(s *state, m *message) verdict {
					v := admit(s, m)
					if v == denied && m.from == 0 {
						m.until = s.sys.now + c.upload
						return taken
					}
					return v
				}
			}
		},
	}
	return strategy{"deadline", "a deadline at the store", "Every write carries a time after which the store refuses it: a presigned URL, a short-lived credential, a finite lease id, a not-after. It ends with the holder's lease; the next holder is granted a lock-delay later.", g.cellsOf("deadline")}
}

// revocation: the old holder's credential is taken away before the claim returns.
func revocation() strategy {
	sync := condition{"sync", "the revocation has reached every part of the resource before it is answered (PostgreSQL's REVOKE has; IAM policies take minutes)"}
	drain := condition{"drain", "what was admitted before has ended, too, before it is answered (in PostgreSQL: terminate the old sessions)"}
	g := gate{
		conditions: func(string) []condition { return []condition{sync, drain} },
		before: func(_, without string) func(int) []step {
			return func(int) []step {
				if without == "revoke" {
					return nil
				}
				return []step{{send: func(*turn) message { return message{op: opRevoke} }, got: goIfDone}}
			}
		},
		set: func(w *world, _, without string) {
			lower := func(tok uint8) func(*message) bool {
				return func(m *message) bool { return m.stage == admitted && m.tok < tok }
			}
			w.special = func(s *state, m *message) (answer, bool) {
				switch {
				case m.op != opRevoke:
					return answer{}, true
				case without == "sync":
					s.sys.pending = max(s.sys.pending, m.tok)
					return answer{code: done}, true
				case without != "drain" && s.holds(lower(m.tok)):
					// From now on nothing is admitted; the answer comes when all has ended.
					return answer{}, false
				}
				s.sys.revoked = max(s.sys.revoked, m.tok)
				return answer{code: done}, true
			}
			w.says = func(s *state, m *message, _ answer) string {
				switch {
				case m.op != opRevoke:
					return ""
				case s.sys.pending > s.sys.revoked:
					return ", before it has reached the store"
				case s.holds(lower(m.tok)):
					return "; what was admitted before goes on"
				}
				return ""
			}
			w.admit = func(s *state, m *message) verdict {
				switch {
				case m.tok < s.sys.revoked:
					return denied
				case m.writes() || m.op == opEffect:
					return taken
				}
				return passes
			}
			if without == "sync" {
				w.env = append(w.env, env{"the revocation reaches the store", func(s *state) bool { return s.sys.pending > s.sys.revoked }, func(s *state) {
					s.sys.revoked = s.sys.pending
				}, nil})
			}
		},
	}
	return strategy{"revocation", "revoke the old holder's credential", "The new holder takes the credentials of all older ones away, or ends their sessions, before it reads.", g.cellsOf("revocation")}
}
