package tables

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// history plays a random history on a table and on the model.
type history struct {
	*fixture
	m *model
	// numbers are the highest request numbers, made how many sessions without a
	// stream and requests there were.
	numbers map[string]uint64
	made    int
	// slots of a name that has any.
	slots uint32
	// manyHolders is how many hold the first name from the beginning on, in this mode.
	manyHolders int
	manyMode    locktable.Mode
	manySlots   uint32
}

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.steps"); f.Value.String() == f.DefValue {
		// Contention takes a while to build up.
		if err := f.Value.Set("100"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := &history{fixture: newFixture(bounds.DefaultLimits), m: newModel(), numbers: map[string]uint64{}}
		h.open(base, 0)
		for range 3 {
			h.attach(t)
		}
		h.gather(t)
		t.Repeat(map[string]func(*rapid.T){
			"attach":   h.attach,
			"detach":   h.detach,
			"acquire":  h.acquire,
			"acquire2": h.acquire,
			"acquire3": h.acquire,
			"again":    h.again,
			"again2":   h.again,
			"late":     h.lateGreeting,
			"release2": h.release,
			"once":     h.once,
			"session":  h.session,
			"release":  h.release,
			"cancel":   h.cancel,
			"hangUp":   h.detachWaiter,
			"repeat":   h.repeat,
			"heard":    h.heard,
			"close":    h.close,
			"break":    h.breakLease,
			"list":     h.list,
			"turn":     h.turn,
			"sleep":    h.sleep,
			"takeOver": h.failOver,
			"":         h.check,
		})
		h.endAll(t)
	})
}

var (
	streams = []string{"s1", "s2", "s3", "s4"}
	pool    = []string{"a", "b", "c"}
)

func (h *history) live(t *rapid.T, attached bool) (string, *mSession) {
	var names []string
	for name, s := range h.m.sessions {
		if (s.stream != nil) == attached && !s.own {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Skip("no such session")
	}
	slices.Sort(names)
	name := rapid.SampledFrom(names).Draw(t, "session")
	return name, h.m.sessions[name]
}

// do decides a command and checks what came of it. asked is who would be granted
// to without waiting.
func (h *history) do(t *rapid.T, c locktable.Command, asked *mWaiter) locktable.Decided {
	d := h.decide(c)
	h.follow(t, d, asked)
	return d
}

func (h *history) follow(t *rapid.T, d locktable.Decided, asked *mWaiter) {
	for _, e := range d.Events {
		if err := h.event(e, asked); err != nil {
			t.Fatalf("%s: %v", h.fixture.event(e), err)
		}
	}
	for _, r := range d.Replies {
		if w, ok := r.Answer.(locktable.Waiting); ok && w.ClaimOnly > 0 {
			h.told(t, r, asked)
		}
		if w, ok := r.Answer.(locktable.Waiting); ok && asked != nil && r.To == asked.ref {
			if !slices.ContainsFunc(h.m.waiters, func(x *mWaiter) bool {
				return x.ref == asked.ref && x.number == asked.number
			}) && asked.place == (locktable.Place{}) {
				asked.place = w.Place
				h.m.waiters = append(h.m.waiters, asked)
			}
		}
	}
}

// told checks who is told that a name is closed to those that do not claim.
func (h *history) told(t *rapid.T, r locktable.Reply, asked *mWaiter) {
	w := asked
	if i := slices.IndexFunc(h.m.waiters, func(w *mWaiter) bool { return w.ref == r.To && w.number == r.Number }); i >= 0 {
		w = h.m.waiters[i]
	}
	if w == nil || h.m.shutOut(w) == "" {
		t.Fatalf("%v #%d is told that a name is closed to it, and none is", r.To, r.Number)
	}
	w.told = true
}

func (h *history) event(e *recordpb.Event, asked *mWaiter) error {
	s := h.name(e.Session)
	switch e.Kind {
	case recordpb.Kind_KIND_SESSION_OPENED:
		ttl := time.Duration(e.TtlNano)
		h.m.sessions[s] = &mSession{own: e.Own, mTTL: mTTL{logged: ttl, want: ttl, until: h.m.real + ttl}}
	case recordpb.Kind_KIND_SESSION_CLOSED:
		return h.m.sessionEnded(s, false)
	case recordpb.Kind_KIND_SESSION_EXPIRED:
		return h.m.sessionEnded(s, true)
	case recordpb.Kind_KIND_NAME_CLAIM_ONLY:
		if until := h.m.claimOnly[e.Name]; h.m.real+time.Duration(e.LeftNano) < until {
			return fmt.Errorf("%s is to be claim-only for %v more", e.Name, until-h.m.real)
		}
	case recordpb.Kind_KIND_NAME_CLAIM_ONLY_OVER:
		return h.m.claimOnlyOver(e.Name)
	case recordpb.Kind_KIND_GRANTED, recordpb.Kind_KIND_GRANTED_RIDER:
		if e.Request == 0 {
			h.m.sessions[s].renewed(h.m.real, 0)
		}
		return h.m.granted(e, s, asked)
	case recordpb.Kind_KIND_RELEASED, recordpb.Kind_KIND_BROKEN:
		return h.m.ended(e, s)
	case recordpb.Kind_KIND_SESSION_SILENT:
		x := h.m.sessions[s]
		if left := x.until - h.m.real; time.Duration(e.LeftNano) < left {
			return fmt.Errorf("I5: %v left of %s, and %v was promised", time.Duration(e.LeftNano), s, left)
		}
		x.silent, x.left = true, time.Duration(e.LeftNano)
	case recordpb.Kind_KIND_SESSION_HEARD:
		h.m.sessions[s].silent = false
	case recordpb.Kind_KIND_SESSION_TTL:
		h.m.sessions[s].logged = time.Duration(e.TtlNano)
	}
	return nil
}

func (h *history) attach(t *rapid.T) {
	name := rapid.SampledFrom(streams).Draw(t, "session")
	s := h.m.sessions[name]
	c := locktable.Attach{TTL: drawTTL(t), Cell: h.table.Cell()}
	if s == nil {
		c.TTL = max(c.TTL, time.Second)
		c.New, c.Generation, c.Ref = h.id(name), 1, name+"/1"
		h.numbers[name] = 0
		h.do(t, c, nil)
		h.m.sessions[name].stream, h.m.sessions[name].generation = c.Ref, 1
		return
	}
	c.Session, c.Generation, c.Next = h.id(name), s.generation+1, h.numbers[name]+1
	c.Ref = fmt.Sprintf("%s/%d", name, c.Generation)
	var held []*mLease
	for _, l := range h.m.leases {
		if l.session == name && !l.over && rapid.Bool().Draw(t, "still wanted") {
			held = append(held, l)
			if rapid.Bool().Draw(t, "by token") {
				c.Held = append(c.Held, uint64(l.token))
			} else {
				c.Wanted = append(c.Wanted, l.number)
			}
		}
	}
	h.m.waiters = slices.DeleteFunc(h.m.waiters, func(w *mWaiter) bool {
		if w.session != name || w.number == 0 {
			return false
		}
		w.detached = true
		if rapid.Bool().Draw(t, "still waited for") {
			c.Wanted = append(c.Wanted, w.number)
			return false
		}
		return true
	})
	s.stream, s.generation, s.asked = c.Ref, c.Generation, 0
	s.renewed(h.m.real, c.TTL)
	h.answered(t, h.do(t, c, nil), name, c.Ref)
	for _, l := range h.m.leases {
		if l.session == name && !l.over && l.number != 0 && !slices.Contains(held, l) {
			t.Fatalf("I8: %s keeps %s, which it does not want", name, token(l.token))
		}
	}
}

func (h *history) detach(t *rapid.T) {
	name, s := h.live(t, true)
	c := locktable.Detach{Ref: s.stream, Session: h.id(name), Generation: s.generation}
	s.stream = nil
	for _, w := range h.m.waiters {
		if w.session == name && w.number != 0 {
			w.detached = true
		}
	}
	h.do(t, c, nil)
}

func (h *history) acquire(t *rapid.T) {
	name, s := h.live(t, true)
	h.numbers[name]++
	w := &mWaiter{session: name, ref: s.stream, number: h.numbers[name]}
	c := locktable.Acquire{
		Ref: s.stream, Session: h.id(name), Generation: s.generation, Number: w.number,
		Try: rapid.IntRange(0, 3).Draw(t, "try") == 0,
	}
	c.Names, c.LockDelay = h.want(t, w)
	c.Claims, c.RideThrough = w.claims, w.ride
	c.Mode, c.Slots = w.mode, w.slots
	h.do(t, c, w)
}

// again asks anew for what waits on a stream that ended.
func (h *history) again(t *rapid.T) {
	var all []*mWaiter
	for _, w := range h.m.waiters {
		if w.detached && w.number != 0 && h.m.sessions[w.session].stream != nil {
			all = append(all, w)
		}
	}
	if len(all) == 0 {
		t.Skip("nobody is detached")
	}
	w := rapid.SampledFrom(all).Draw(t, "waiter")
	s := h.m.sessions[w.session]
	w.detached, w.ref = false, s.stream
	for _, r := range h.do(t, h.asked(w), w).Replies {
		if no, refused := r.Answer.(locktable.Refused); refused && r.To == w.ref {
			t.Fatalf("%s #%d is asked again and refused: %+v", w.session, w.number, no)
		}
	}
}

func (h *history) asked(w *mWaiter) locktable.Acquire {
	s := h.m.sessions[w.session]
	return locktable.Acquire{
		Ref: s.stream, Session: h.id(w.session), Generation: s.generation, Number: w.number,
		Names: w.names, Mode: w.mode, Slots: w.slots, LockDelay: w.delay,
		Claims: w.claims, RideThrough: w.ride,
	}
}

func (h *history) release(t *rapid.T) {
	if len(h.m.leases) == 0 {
		t.Skip("no lease")
	}
	l := rapid.SampledFrom(h.m.leases).Draw(t, "lease")
	s := h.m.sessions[l.session]
	if l.over || s.stream == nil {
		t.Skip("nobody can release it")
	}
	s.renewed(h.m.real, 0)
	h.do(t, locktable.Release{
		Ref: s.stream, Session: h.id(l.session), Generation: s.generation, Number: 1 << 40, Token: l.token,
	}, nil)
}

func (h *history) cancel(t *rapid.T) {
	if len(h.m.waiters) == 0 {
		t.Skip("nobody waits")
	}
	w := rapid.SampledFrom(h.m.waiters).Draw(t, "waiter")
	c := locktable.Cancel{Waiter: w.ref}
	if w.number == 0 && w.detached {
		t.Skip("its caller is gone")
	}
	if w.number != 0 {
		s := h.m.sessions[w.session]
		c = locktable.Cancel{Session: h.id(w.session), Generation: s.generation, Number: w.number}
	}
	h.m.waiters = slices.DeleteFunc(h.m.waiters, func(x *mWaiter) bool { return x == w })
	h.do(t, c, nil)
}

func (h *history) heard(t *rapid.T) {
	name, s := h.live(t, rapid.Bool().Draw(t, "on a stream"))
	ttl := drawTTL(t)
	if s.stream == nil {
		s.renewed(h.m.real, ttl)
		h.answered(t, h.do(t, locktable.Renew{Ref: name, Session: h.id(name), TTL: ttl}, nil), name, name)
		return
	}
	// One that comes twice asks for nothing.
	renewal := rapid.Uint64Range(max(s.asked, 1), s.asked+2).Draw(t, "renewal")
	if ttl != 0 && renewal > s.asked {
		s.asked = renewal
		s.renewed(h.m.real, ttl)
	} else {
		s.renewed(h.m.real, 0)
	}
	finished := rapid.Uint64Range(0, h.numbers[name]).Draw(t, "finished")
	if finished > s.finished {
		s.finished = finished
		h.m.waiters = slices.DeleteFunc(h.m.waiters, func(w *mWaiter) bool {
			return w.session == name && w.number != 0 && w.number < finished
		})
	}
	h.answered(t, h.do(t, locktable.Heard{
		Ref: s.stream, Session: h.id(name), Generation: s.generation, Renewal: renewal, TTL: ttl, Finished: finished,
	}, nil), name, s.stream)
}

func (h *history) close(t *rapid.T) {
	name, _ := h.live(t, rapid.Bool().Draw(t, "on a stream"))
	h.do(t, locktable.Close{Ref: "closer", Session: h.id(name)}, nil)
}

func (h *history) breakLease(t *rapid.T) {
	if len(h.m.leases) == 0 {
		t.Skip("no lease")
	}
	l := rapid.SampledFrom(h.m.leases).Draw(t, "lease")
	h.do(t, locktable.Break{Ref: "admin", Name: l.names[0], Token: l.token, Now: rapid.Bool().Draw(t, "now")}, nil)
}

func (h *history) list(t *rapid.T) {
	c := locktable.List{Ref: "reader", Limit: rapid.IntRange(0, 3).Draw(t, "limit")}
	if rapid.Bool().Draw(t, "one") {
		c.Name = rapid.SampledFrom(pool).Draw(t, "name")
	}
	h.do(t, c, nil)
}

// turn is what the loop does every 100 ms, in portions that may be too small.
func (h *history) turn(t *rapid.T) {
	h.pass(100 * time.Millisecond)
	h.lag = min(max(h.lag+time.Duration(rapid.IntRange(-100, 100).Draw(t, "lag"))*time.Millisecond, 0), 250*time.Millisecond)
	d, _ := h.tick(rapid.IntRange(0, 3).Draw(t, "incomplete") > 0, rapid.IntRange(1, 3).Draw(t, "budget"))
	h.follow(t, d, nil)
}

func (h *history) sleep(t *rapid.T) {
	h.pass(time.Duration(rapid.IntRange(1, 4000).Draw(t, "ms")) * time.Millisecond)
}

func (h *history) pass(d time.Duration) {
	h.advance(d)
	h.m.real += d
}

// drain turns until nothing is to be done.
func (h *history) drain(t *rapid.T) {
	for range 1000 {
		d, more := h.tick(true, 1000)
		h.follow(t, d, nil)
		if !more {
			return
		}
	}
	t.Fatal("the table is never done")
}

func (h *history) failOver(t *rapid.T) {
	for _, s := range h.m.sessions {
		s.stream, s.generation, s.finished = nil, 0, 0
		s.takenOver(h.m.real)
	}
	h.m.waiters = nil
	h.m.leases = slices.DeleteFunc(h.m.leases, func(l *mLease) bool { return l.over })
	wall := base
	if rapid.Bool().Draw(t, "clock right") {
		wall = h.now.Wall
	}
	d, err := h.fixture.takeOver(rapid.Bool().Draw(t, "snapshot"), wall)
	if err != nil {
		t.Fatal(err)
	}
	h.m.last = guard.Token(d.Events[len(d.Events)-1].Token)
	h.now.Wall = h.now.Wall.Add(time.Millisecond)
}

func (h *history) check(t *rapid.T) {
	if h.manyHolders > 0 && rapid.IntRange(0, 4).Draw(t, "look") > 0 {
		return
	}
	for name, s := range h.m.sessions {
		if err := s.gives(h.m.real); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if rapid.IntRange(0, 2).Draw(t, "settle") > 0 {
		h.drain(t)
		if err := h.m.quiet(h.closed()); err != nil {
			t.Fatal(err)
		}
		if err := h.m.untold(); err != nil {
			t.Fatal(err)
		}
		h.countGrades(t)
		for name, s := range h.m.sessions {
			if err := s.late(h.m.real - h.now.High + h.now.Low); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		h.m.waiters = slices.DeleteFunc(h.m.waiters, func(w *mWaiter) bool {
			return w.number == 0 && w.detached && w.kept <= h.m.real-h.now.High+h.now.Low
		})
		h.m.leases = slices.DeleteFunc(h.m.leases, func(l *mLease) bool { return l.over })
		if c := h.table.Counts(); c.Leases != len(h.m.leases) {
			t.Fatalf("the table has %d leases, %d were expected", c.Leases, len(h.m.leases))
		}
	}
	for _, snapshot := range []bool{false, true} {
		other, err := h.rebuilt(snapshot)
		if err != nil {
			t.Fatalf("rebuild (snapshot: %v): %v", snapshot, err)
		}
		if diff := h.differs(other); diff != "" {
			t.Fatalf("I9 (snapshot: %v):\n%s", snapshot, diff)
		}
	}
	// A place whose time is over goes when a turn gets to it.
	over := 0
	for _, w := range h.m.waiters {
		if w.number == 0 && w.detached && w.kept <= h.m.real {
			over++
		}
	}
	c := h.table.Counts()
	if n := len(h.m.waiters); c.Sessions != len(h.m.sessions) || c.Waiters > n || c.Waiters < n-over {
		t.Fatalf("the table counts %+v; %d sessions and %d waiters were expected, of which %d may have gone",
			c, len(h.m.sessions), n, over)
	}
}

// closed lists the names that the table holds closed: it may do so for longer
// than the model, by what it counts late.
func (h *history) closed() (names []string) {
	high := h.now.High
	h.now.High = h.now.Low
	defer func() { h.now.High = high }()
	for _, l := range h.decide(locktable.List{Ref: "reader"}).Replies[0].Answer.(locktable.Page).Locks {
		if l.ClosedFor > 0 {
			names = append(names, l.Name)
		}
	}
	return names
}

// endAll lets everybody's time run out: nothing may be left.
func (h *history) endAll(t *rapid.T) {
	for _, w := range slices.Clone(h.m.waiters) {
		if w.number == 0 && !w.detached {
			h.m.waiters = slices.DeleteFunc(h.m.waiters, func(x *mWaiter) bool { return x == w })
			h.do(t, locktable.Cancel{Waiter: w.ref}, nil)
		}
	}
	h.lag = 0
	for range 40 {
		h.pass(time.Second)
		h.drain(t)
	}
	c := h.table.Counts()
	if c.Sessions != 0 || c.Leases != 0 || c.Waiters != 0 || c.Names != 0 || c.ByGrade != (locktable.ByGrade{}) || c.Riders != 0 || c.ClaimOnly != 0 {
		t.Fatalf("left over: %+v", c)
	}
}
