package session

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testscript"
)

// script drives a Machine. Each command is one turn of its driver. Its output is in this
// order: hang up, dial, send, event, lease, observer, call.
//
//	@250                 the time, in milliseconds of both clocks
//	acquire x, try x     a call, numbered from 1 in the order of calls; several
//	                     names as x,y, then shared, slots=3, value=v, delay=2s,
//	                     claims, ride=10s
//	release 5, check 5   calls on the lease with token 5
//	cancel 2             the caller of call 2 gives up
//	leave 2              so it does, and the machine is not told yet
//	welcome 3s lost=5    the server greets; epoch=2: in this tenure
//	ttl 5s               a call of SetTTL
//	open                 a Dial waits for the session
//	left 948             so many whole milliseconds of trust must be left
//	renewed 2 5s         the server acknowledges a renewal; 3s when it says nothing
//	                     else, and "none" for a server that says nothing at all
//	granted 1 5          request 1 is granted with token 5, then fence=4, slot=2
//	waiting 1, done 1
//	broken 5, yield 5    a notice about the lease with token 5, and why
//	held 5               the end of lease 5 must not have been told,
//	ended 5 lease lost   and here it must, with this reason
//	observe x            an observer, numbered from 1 in the order of observers
//	unobserve 1          it goes
//	observed x 5 v       the server tells who holds x, with which value
//	unseen x denied      the server tells that x is not observed, and why
//	refused 1 held       with a reason and, for unavailable, a server, or, for
//	                     exhausted, after=250ms
//	closed gone          the server's last word
//	down                 the stream breaks
//	overtaken 5          the guard of the lease with token 5 says so
//	ridden 948           so many whole milliseconds of a ride of 10s must be left
//	pass 7               so many other requests are asked and answered
type script struct {
	t     *testing.T
	m     *Machine
	calls []*call
	watch []*watcher
	lease map[guard.Token]*Lease
	ended map[guard.Token]*Cause
	// attempt is the newest one. stream: it could carry a message.
	attempt *Attempt
	stream  bool
	// deadline is what leases were told of their trust.
	deadline Deadline
	// turn is what came of the present turn, out what came and was not expected yet.
	turn []told
	out  []string
}

// told is one line of what came of a turn, at its place.
type told struct {
	group, index int
	text         string
}

// The places of lines.
const (
	hangUps = iota
	dials
	sends
	events
	ends
	observers
	callers
)

// call is one caller.
type call struct {
	index   int
	request *Request
	setsTTL bool
	// gone: it gave up.
	answered, gone bool
	lease          *Lease
	why            *Cause
}

// watcher is one observer.
type watcher struct {
	index  int
	name   string
	leader *Leader
	ended  bool
	why    *Cause
}

// runScripts runs the scripts of a file in testdata. The first line of each begins it:
//
//	start                the first attempt is dialled
//	opened               so it was, and greeted at 10 ms with a TTL of 3 s
//	opened spread=8      the same, with this Settings.Spread
func runScripts(t *testing.T, file string) {
	t.Helper()
	testscript.Run(t, "testdata/"+file, func(t *testing.T) func(string) []string {
		var s *script
		return func(line string) []string {
			if s == nil {
				s = begin(t, strings.Fields(line))
			} else {
				s.takeTurn(line)
			}
			out := s.out
			s.out = nil
			return out
		}
	})
}

func begin(t *testing.T, f []string) *script {
	t.Helper()
	settings := ofTwo()
	if len(f) > 1 {
		settings.Spread = number(strings.TrimPrefix(f[1], "spread="))
	}
	s := start(t, settings)
	switch f[0] {
	case "start":
	case "opened":
		s.takeTurn("@10 welcome 3s")
		if want := []string{`dial a session "" generation 1`, "event safe leases 0"}; !slices.Equal(s.out, want) {
			t.Fatalf("a session is opened: %q, expected %q", s.out, want)
		}
		s.out = nil
	default:
		t.Fatalf("a script begins with %q", f)
	}
	return s
}

// ofTwo are the settings of scripts: two servers, a TTL of 3 s, no jitter.
func ofTwo() Settings {
	return Settings{Servers: []string{"a", "b"}, TTL: 3 * time.Second, Jitter: func() float64 { return 0 }}
}

// start begins a script: the first attempt is dialled.
func start(t *testing.T, settings Settings) *script {
	s := &script{
		t: t, m: New(settings, clock.Reading{}),
		lease: map[guard.Token]*Lease{}, ended: map[guard.Token]*Cause{},
	}
	s.takeTurn()
	return s
}

// open begins a script with a session.
func open(t *testing.T, settings Settings) *script {
	s := start(t, settings)
	s.takeTurn("welcome 3s")
	s.out = nil
	return s
}

// takeTurn is one turn of the driver, in which so much arrives.
func (s *script) takeTurn(lines ...string) {
	s.t.Helper()
	for _, line := range lines {
		s.input(strings.Fields(line))
	}
	s.m.Tick()
	s.carryOut()
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func span(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

func (s *script) input(f []string) {
	s.t.Helper()
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	token := func() guard.Token { return guard.Token(number(f[1])) }
	reply := func(r *linkpb.Reply) {
		r.Number = number(f[1])
		s.hear(&linkpb.ServerMessage{Replies: []*linkpb.Reply{r}})
	}
	notice := func(kind linkpb.Notice_Kind) {
		s.hear(&linkpb.ServerMessage{Notices: []*linkpb.Notice{{Token: number(f[1]), Kind: kind, Reason: arg(2)}}})
	}
	switch f[0] {
	case "acquire", "try":
		w := &AcquireSpec{Names: strings.Split(f[1], ","), Try: f[0] == "try"}
		for _, o := range f[2:] {
			wish(w, o)
		}
		c := s.call()
		c.request = s.m.Acquire(c, w)
	case "release":
		s.m.Release(s.call(), s.lease[token()])
	case "check":
		s.m.Check(s.call(), s.lease[token()])
	case "cancel":
		c := s.calls[number(f[1])-1]
		switch c.gone = c.gone || !c.answered; {
		case !c.gone:
		case c.setsTTL:
			s.m.GiveUpTTL(c)
		default:
			s.m.GiveUp(c.request)
		}
	case "leave":
		s.calls[number(f[1])-1].gone = true
	case "open":
		s.m.Open(s.call())
	case "close":
		s.m.Close(time.Second)
	case "welcome":
		w := &linkpb.Welcome{Cell: "cell-1", TtlNano: int64(span(f[1]))}
		if w.Session = s.m.Session(); w.Session == nil {
			w.Session = fmt.Append(nil, "s", s.attempt.ID)
		}
		for _, a := range f[2:] {
			if lost, ok := strings.CutPrefix(a, "lost="); ok {
				w.Lost = []uint64{number(lost)}
			} else {
				w.Epoch = number(strings.TrimPrefix(a, "epoch="))
			}
		}
		s.hear(&linkpb.ServerMessage{Welcome: w})
	case "renewed":
		ttl := 3 * time.Second
		if len(f) > 2 {
			ttl = spanOrNone(f[2])
		}
		beat := time.Duration(0)
		if len(f) > 3 {
			beat = spanOrNone(f[3])
		}
		s.hear(&linkpb.ServerMessage{Renewal: number(f[1]), TtlNano: int64(ttl), BeatNano: int64(beat)})
	case "left":
		left := s.m.window.Remaining(s.m.now)
		if told := s.deadline.Left(s.m.now); told != left || left/time.Millisecond != time.Duration(number(f[1])) {
			s.t.Fatalf("%v are left (%v for its leases), not %s ms", left, told, f[1])
		}
	case "ttl":
		c := s.call()
		c.setsTTL = true
		s.m.SetTTL(c, span(f[1]))
	case "overtaken":
		s.m.Overtaken(s.lease[token()], errors.New("a higher token"))
	case "ridden":
		if left := s.deadline.RideLeft(s.m.now, 10*time.Second); left/time.Millisecond != time.Duration(number(f[1])) {
			s.t.Fatalf("%v are left of a ride of 10s, not %s ms", left, f[1])
		}
	case "granted":
		reply(&linkpb.Reply{What: &linkpb.Reply_Granted{Granted: s.granted(number(f[1]), number(f[2]), f[3:])}})
	case "broken":
		notice(linkpb.Notice_KIND_BROKEN)
	case "yield":
		notice(linkpb.Notice_KIND_UNSPECIFIED)
	case "held":
		if why := s.ended[token()]; why != nil || s.lease[token()] == nil {
			s.t.Fatalf("lease %s has ended: %s", f[1], text(why))
		}
	case "ended":
		if why := text(s.ended[token()]); why != strings.Join(f[2:], " ") {
			s.t.Fatalf("the end of lease %s is told: %s", f[1], why)
		}
	case "observe":
		o := &watcher{index: len(s.watch) + 1, name: f[1]}
		s.watch = append(s.watch, o)
		s.m.Observe(o, o.name)
	case "unobserve":
		o := s.watch[number(f[1])-1]
		s.m.Unobserve(o, o.name)
	case "observed":
		s.hear(&linkpb.ServerMessage{Observed: []*linkpb.Observed{{
			Name: f[1], Token: number(f[2]), Value: []byte(arg(3)), Label: "label",
		}}})
	case "unseen":
		s.hear(&linkpb.ServerMessage{Observed: []*linkpb.Observed{{Name: f[1], Reason: reasonNamed(f[2]), Message: "because"}}})
	case "waiting":
		w := &linkpb.Waiting{Ticket: []byte("ticket" + f[1])}
		if closed, ok := strings.CutPrefix(arg(2), "claim-only="); ok {
			w.ClaimOnlyNano = int64(span(closed))
		}
		reply(&linkpb.Reply{What: &linkpb.Reply_Waiting{Waiting: w}})
	case "done":
		reply(&linkpb.Reply{What: &linkpb.Reply_Done{Done: &linkpb.Done{}}})
	case "refused":
		w := &linkpb.Refused{Reason: reasonNamed(f[2])}
		if after, ok := strings.CutPrefix(arg(3), "after="); ok {
			w.RetryAfterNano = int64(span(after))
		} else {
			w.ActiveLink = arg(3)
		}
		reply(&linkpb.Reply{What: &linkpb.Reply_Refused{Refused: w}})
	case "closed":
		s.hear(&linkpb.ServerMessage{Closed: &linkpb.Closed{Reason: reasonNamed(arg(1)), ActiveLink: arg(2)}})
	case "down":
		s.m.Disconnected(s.attempt.ID, &Cause{Kind: NetworkError, NetworkErr: errors.New("broken pipe")})
	case "pass":
		s.m.next += number(f[1])
	default:
		ms, ok := strings.CutPrefix(f[0], "@")
		if !ok {
			s.t.Fatalf("what is %q?", f)
		}
		s.m.At(clock.Reading{}.Add(time.Duration(number(ms)) * time.Millisecond))
		if len(f) > 1 { // what arrived is handled before what is due
			s.input(f[1:])
		}
	}
}

// granted is a server's grant of what a request asks for, or of x if there is none.
func (s *script) granted(n, token uint64, options []string) *linkpb.Granted {
	g := &linkpb.Granted{Token: token}
	names := []string{"x"}
	if r := s.m.requests[n]; r != nil {
		names = r.spec.Names
	}
	if r := s.m.requests[n]; r != nil && !slices.Contains(options, "unridden") {
		g.RideThroughNano = int64(r.spec.RideThrough)
	}
	options = slices.DeleteFunc(slices.Clone(options), func(o string) bool { return o == "unridden" })
	for _, name := range names {
		fence := &linkpb.Fence{Name: name, Fence: token}
		for _, o := range options {
			if slot, ok := strings.CutPrefix(o, "slot="); ok {
				fence.Slot = uint32(number(slot))
			} else {
				fence.Fence = number(strings.TrimPrefix(o, "fence="))
			}
		}
		g.Fences = append(g.Fences, fence)
	}
	return g
}

func (s *script) call() *call {
	c := &call{index: len(s.calls) + 1}
	s.calls = append(s.calls, c)
	return c
}

func (s *script) hear(x *linkpb.ServerMessage) { s.m.Heard(s.attempt.ID, x) }

// carryOut does what the machine wants, as its driver does.
func (s *script) carryOut() {
	s.t.Helper()
	for all := s.m.Effects(); len(all) > 0; all = s.m.Effects() {
		for i := range all {
			s.effect(&all[i])
		}
	}
	for x := s.m.Message(); x != nil; x = s.m.Message() {
		if !s.stream {
			s.t.Errorf("nothing carries %v", x)
		}
		s.say(sends, 0, messageText(x))
	}
	slices.SortStableFunc(s.turn, func(a, b told) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.index, b.index))
	})
	for i, l := range s.turn {
		// An observer may miss what is not the newest.
		if next := i + 1; l.group == observers && next < len(s.turn) && s.turn[next].group == observers && s.turn[next].index == l.index {
			continue
		}
		s.out = append(s.out, l.text)
	}
	s.turn = nil
}

func (s *script) say(group, index int, text string) {
	s.turn = append(s.turn, told{group, index, text})
}

func (s *script) effect(e *Effect) {
	s.t.Helper()
	switch e.Kind {
	case AnswerCall:
		s.answer(e.Ref.(*call), nil, e.Cause)
	case GrantLease:
		if c := e.Ref.(*call); c.gone {
			s.lease[e.Lease.Token] = e.Lease
			s.m.ReleaseUnclaimed(e.Lease)
		} else {
			s.answer(c, e.Lease, nil)
		}
	case ReportBlocked:
		if e.Cause != nil && e.Cause.Kind == ClaimOnly {
			s.say(callers, e.Ref.(*call).index, fmt.Sprintf("call %d waits: %s", e.Ref.(*call).index, text(e.Cause)))
		}
	case SessionOpened, TraceRequest:
	case EndLease:
		s.ended[e.Lease.Token] = e.Cause
		if e.Cause.Kind == Broken {
			s.say(ends, int(e.Lease.Token), fmt.Sprintf("lease %d: %s", e.Lease.Token, text(e.Cause)))
		}
	case BeginRide:
		s.say(ends, int(e.Lease.Token), fmt.Sprintf("lease %d rides, looked at every %v", e.Lease.Token, e.Interval))
	case EndRide:
		s.say(ends, int(e.Lease.Token), fmt.Sprintf("lease %d rides no more", e.Lease.Token))
	case RequestRelease:
		s.say(ends, int(e.Lease.Token), fmt.Sprintf("lease %d: %s", e.Lease.Token, text(e.Cause)))
	case ExtendTrust:
		s.deadline = e.Deadline
	case BeginSession:
		s.deadline = Deadline{}
	case CloseStream:
		s.stream = false
		s.say(hangUps, 0, "hang up")
	case Dial:
		s.attempt, s.stream = e.Attempt, true
		s.say(dials, 0, attemptText(e.Attempt))
	case PublishLeader:
		o := e.Ref.(*watcher)
		o.leader = e.Leader
		s.say(observers, o.index, fmt.Sprintf("observer %d: %d %q", o.index, e.Leader.Token, e.Leader.Value))
	case EndWatch:
		o := e.Ref.(*watcher)
		if o.ended {
			s.t.Errorf("the end of observer %d is told twice", o.index)
		}
		o.ended, o.why = true, e.Cause
		s.say(observers, o.index, fmt.Sprintf("observer %d: %s", o.index, text(e.Cause)))
	case EmitEvent:
		s.say(events, 0, fmt.Sprintf("event %s leases %d", eventText(e.Event.Kind), e.Event.Leases))
	default:
		s.t.Errorf("nobody knows how to do %d", e.Kind)
	}
}

func (s *script) answer(c *call, l *Lease, why *Cause) {
	s.t.Helper()
	if c.gone {
		return
	}
	if c.answered {
		s.t.Errorf("call %d is answered twice", c.index)
	}
	c.answered, c.lease, c.why = true, l, why
	if l != nil {
		s.lease[l.Token] = l
		s.say(callers, c.index, fmt.Sprintf("call %d: lease %d", c.index, l.Token))
	} else {
		s.say(callers, c.index, fmt.Sprintf("call %d: %s", c.index, text(why)))
	}
}

// spanOrNone reads a time; "none" is what a server does not say.
func spanOrNone(s string) time.Duration {
	if s == "none" {
		return 0
	}
	return span(s)
}
