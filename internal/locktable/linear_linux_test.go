package locktable

import (
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/bounds"
)

// The cost of what one client piles up is linear in its amount. A quadratic cost froze
// the cell for minutes. With sixteen times the amount, a quadratic cost is 256 times as
// high and a linear one about 16 times, or somewhat more where caches are too small.
const times, allowed = 16, 90

// linear measures what work takes of the processor at n and at several times n.
// The best of a few attempts counts, since others use the caches too.
func linear(t *testing.T, n int, prepare func(t *testing.T, n int) (work func())) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	cost := func(n, attempts int) (best time.Duration) {
		for i := range attempts {
			work := prepare(t, n)
			runtime.GC()
			begun := used(t)
			work()
			if took := used(t) - begun; i == 0 || took < best {
				best = took
			}
		}
		return best
	}
	one := max(cost(n, 3), time.Microsecond)
	var most time.Duration
	for range 3 {
		if most = cost(times*n, 1); most <= allowed*one {
			return
		}
	}
	t.Errorf("%v for %d, %v for %d: that is no proportion", one, n, most, times*n)
}

// used is the processor time of this thread.
func used(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// hall is a table with sessions 1, 2, … that ask with streams and without.
type hall struct {
	table *Table
	now   Now
	d     *Decided
}

const sessions = 4

func newHall() *hall {
	none := 1 << 30
	h := &hall{
		table: New(bounds.Limits{
			LeasesPerSession: none, WaitersPerName: none, Sessions: none, Leases: none, Waiters: none, ValueBytes: none,
			TextBytes: none, Closed: none, Observed: none, Observers: none, Finished: none,
		}),
		d: &Decided{},
	}
	h.table.Found("c", make([]byte, 32), h.d)
	h.table.Open(1, h.now.Wall.AddDate(2026, 0, 0), 0, h.d)
	h.now.Wall = h.now.Wall.AddDate(2027, 0, 0)
	for i := range byte(sessions) {
		h.decide(Attach{Ref: i + 1, New: ID{i + 1}, TTL: bounds.TTLDefault, Generation: 1})
	}
	return h
}

// decide returns the last answer.
func (h *hall) decide(c Command) (last Answer) {
	h.table.Decide(h.now, c, h.d)
	if n := len(h.d.Replies); n > 0 {
		last = h.d.Replies[n-1].Answer
	}
	clear(h.d.Events)
	clear(h.d.Replies)
	h.d.Events, h.d.Replies = h.d.Events[:0], h.d.Replies[:0]
	return last
}

// leaseOf is the id of the i-th lease that a session asks for without its stream,
// and the caller's ref.
func leaseOf(session byte, i int) ID {
	return ID{0xff, session, byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)}
}

// ask asks without the stream.
func (h *hall) ask(session byte, i int, m Mode, names ...string) Answer {
	id := leaseOf(session, i)
	return h.decide(Acquire{Ref: id, Session: ID{session}, Lease: id, Mode: m, Names: names})
}

func (h *hall) release(session byte, i int) {
	h.decide(Release{Ref: 0, Lease: leaseOf(session, i)})
}

func (h *hall) must(t *testing.T, leases, waiters int) {
	t.Helper()
	if c := h.table.Counts(); c.Leases != leases || c.Waiters != waiters {
		t.Fatalf("%d leases and %d waiters; %d and %d were expected", c.Leases, c.Waiters, leases, waiters)
	}
}

// heldUp has a session's shared waiters stand in the queue of name, all of them
// held up at far, which the last session has.
func (h *hall) heldUp(session byte, n int, name string) {
	h.ask(sessions, 0, Exclusive, "far")
	for i := range n {
		h.ask(session, 1<<28+i, Shared, name, "far")
	}
}

// orders are those in which n things may go; the prime is no divisor of any n.
var orders = map[string]func(i, n int) int{
	"the first first": func(i, n int) int { return i },
	"the last first":  func(i, n int) int { return n - 1 - i },
	"from the middle": func(i, n int) int { return (n/2 + (i+1)/2*(1-i%2*2) + n) % n },
	"here and there":  func(i, n int) int { return i * 7919 % n },
}

func TestSharedReleasesTakeLinearTime(t *testing.T) {
	for what, which := range orders {
		t.Run(what, func(t *testing.T) {
			linear(t, 12_000, func(t *testing.T, n int) func() {
				h := newHall()
				for i := range n {
					h.ask(1, i, Shared, "x")
				}
				h.must(t, n, 0)
				return func() {
					for i := range n {
						h.release(1, which(i, n))
					}
					h.must(t, 0, 0)
				}
			})
		})
	}
}

// A shared lease that ends beside others makes room for nobody: who waits is not
// looked at, neither while an ended session's leases are still being taken out.
func TestSharedReleasesDoNotScanQueue(t *testing.T) {
	for what, ending := range map[string]bool{"in peace": false, "while a session ends": true} {
		t.Run(what, func(t *testing.T) {
			linear(t, 1000, func(t *testing.T, n int) func() {
				h := newHall()
				for i := range n + 1 {
					h.ask(1, i, Shared, "x")
				}
				h.heldUp(2, n, "x")
				if ending {
					h.ask(3, 0, Exclusive, "y")
					h.decide(Close{Session: ID{3}})
					h.must(t, n+3, n)
				} else {
					h.must(t, n+2, n)
				}
				return func() {
					for i := range n {
						h.release(1, i)
					}
				}
			})
		})
	}
}

// A name has so many waiters at most: beyond it the list's moving would tell.
var waitersMax = bounds.DefaultLimits.WaitersPerName

func TestWaitersCancelInLinearTime(t *testing.T) {
	for what, which := range orders {
		t.Run(what, func(t *testing.T) {
			linear(t, waitersMax/times, func(t *testing.T, n int) func() {
				h := newHall()
				h.ask(1, 0, Exclusive, "x")
				for i := range n {
					h.ask(2, i, Exclusive, "x")
				}
				h.must(t, 1, n)
				return func() {
					for i := range n {
						h.decide(Cancel{Waiter: leaseOf(2, which(i, n))})
					}
					h.must(t, 1, 0)
				}
			})
		})
	}
}

// Shared waiters that are held up elsewhere leave one by one, by themselves or as
// their sessions end: what remains of their queue is not walked for each.
func TestSharedWaitersCancelInLinearTime(t *testing.T) {
	for what, which := range orders {
		for behind, writer := range map[string]bool{"": false, ", before a writer": true} {
			t.Run(what+behind, func(t *testing.T) {
				linear(t, (waitersMax-1)/times, func(t *testing.T, n int) func() {
					h := newHall()
					h.heldUp(2, n, "x")
					left := 0
					if writer {
						h.ask(3, 0, Exclusive, "x", "far")
						left = 1
					}
					h.must(t, 1, n+left)
					return func() {
						for i := range n {
							h.decide(Cancel{Waiter: leaseOf(2, 1<<28+which(i, n))})
						}
						h.must(t, 1, left)
					}
				})
			})
		}
	}
}

// The waiters of a session go all at once, with it or with its stream: the queue
// that they stood in is walked once then, not for each of them.
func TestWaitersEndInLinearTime(t *testing.T) {
	for what, c := range map[string]struct {
		end  Command
		left int
	}{
		"with its session": {Close{Session: ID{3}}, 0},
		"with its stream":  {Detach{Ref: byte(3), Session: ID{3}, Generation: 1}, 1},
		"given up":         {Heard{Ref: byte(3), Session: ID{3}, Generation: 1, Finished: bounds.NumbersMax}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			linear(t, 1500, func(t *testing.T, n int) func() {
				h := newHall()
				h.ask(1, 0, Shared, "x")
				h.heldUp(2, n, "x")
				for i := range n {
					h.decide(Acquire{
						Ref: byte(3), Session: ID{3}, Generation: 1, Number: uint64(i + 1), Mode: Shared, Names: []string{"x", "far"},
					})
				}
				h.must(t, 2, 2*n)
				return func() {
					h.decide(c.end)
					h.must(t, 2, n+c.left*n)
				}
			})
		})
	}
}

// While the leases of an ended session are being taken out, a name's holders are
// looked through for them once, not with each request for the name.
func TestHoldersAreScannedOncePerEndedSession(t *testing.T) {
	linear(t, 1000, func(t *testing.T, n int) func() {
		h := newHall()
		for i := range n {
			h.ask(1, i, Shared, "x")
		}
		h.ask(2, 0, Exclusive, "y")
		h.decide(Close{Session: ID{2}})
		return func() {
			for i := range n {
				h.ask(3, i, Shared, "x")
			}
			h.must(t, 2*n+1, 0)
			for i := range n {
				h.release(1, i)
			}
			h.must(t, n+1, 0)
		}
	})
}

// A request that stays unfinished has the numbers of all later ones kept. When it
// is finished at last, and they are one by one, each costs what it is.
func TestFinishedNumbersAreForgottenInLinearTime(t *testing.T) {
	for what, keep := range map[string]func(h *hall, n int) (next uint64){
		"done": func(h *hall, n int) uint64 {
			number := uint64(2)
			for range n {
				g := h.decide(Acquire{Ref: byte(1), Session: ID{1}, Generation: 1, Number: number, Names: []string{"x"}}).(Granted)
				h.decide(Release{Ref: byte(1), Session: ID{1}, Generation: 1, Number: number + 1, Token: g.Token})
				number += 2
			}
			return number
		},
		"cancelled": func(h *hall, n int) uint64 {
			for i := range n {
				h.decide(Cancel{Session: ID{1}, Generation: 1, Number: uint64(i + 2)})
			}
			return uint64(2 + n)
		},
	} {
		t.Run(what, func(t *testing.T) {
			linear(t, 1000, func(t *testing.T, n int) func() {
				h := newHall()
				next := keep(h, n)
				s := h.table.sessions[ID{1}]
				if kept := len(s.done) + len(s.cancelled); kept < n {
					t.Fatalf("%d numbers are kept of %d", kept, n)
				}
				g := h.decide(Acquire{Ref: byte(1), Session: ID{1}, Generation: 1, Number: next, Names: []string{"x"}}).(Granted)
				return func() {
					for i := range n {
						h.decide(Heard{Ref: byte(1), Session: ID{1}, Generation: 1, Finished: uint64(i + 1)})
						h.decide(Release{Ref: byte(1), Session: ID{1}, Generation: 1, Number: next + 1, Token: g.Token})
						g = h.decide(Acquire{Ref: byte(1), Session: ID{1}, Generation: 1, Number: next + 2, Names: []string{"x"}}).(Granted)
						next += 2
					}
				}
			})
		})
	}
}

// Sessions that observe one name end all at once, with the connection that
// opened them.
func TestObserversEndInLinearTime(t *testing.T) {
	id := func(i int) ID { return ID{0xfe, byte(i), byte(i >> 8), byte(i >> 16)} }
	linear(t, 2000, func(_ *testing.T, n int) func() {
		h := newHall()
		for i := range n {
			h.decide(Attach{Ref: id(i), New: id(i), TTL: bounds.TTLDefault, Generation: 1})
			h.decide(Observe{Ref: id(i), Session: id(i), Generation: 1, Name: "x"})
		}
		return func() {
			for i := range n {
				h.decide(Detach{Ref: id(n - 1 - i), Session: id(n - 1 - i), Generation: 1})
			}
		}
	})
}

// Thousands of waiters that do not claim wait for a name that becomes claim-only, and for
// others beside it: each is passed over, and told, once.
func TestWaitersAreKeptOutInLinearTime(t *testing.T) {
	linear(t, (waitersMax-1)/times, func(t *testing.T, n int) func() {
		h := newHall()
		h.decide(Acquire{Ref: leaseOf(1, 0), Session: ID{1}, Lease: leaseOf(1, 0), Names: []string{"x"}, Claims: true, RideThrough: time.Second})
		token := h.table.locks["x"].token()
		for i := range n {
			h.ask(2, i, Exclusive, "x", "y")
		}
		h.must(t, 1, n)
		return func() {
			h.decide(Break{Ref: byte(1), Name: "x", Token: token, Now: true})
			h.ask(3, 0, Exclusive, "y")
			h.must(t, 1, n)
		}
	})
}
