package pawl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
)

// script drives a core through lines of input and compares what it does with
// the lines that begin with ">". Each input line is one turn of the loop.
//
//	@250                 the time, in milliseconds of both clocks
//	acquire x, try x     a call, numbered from 1 in the order of calls; several
//	                     names as x,y, then shared, slots=3, value=v, delay=2s
//	release 5, check 5   calls on the lease with token 5
//	cancel 2             the caller of call 2 gives up
//	welcome 3s lost=5    the server greets; epoch=2: in this tenure
//	ttl 5s               a call of SetTTL
//	open                 a Dial waits for the session
//	left 948             so many whole milliseconds of trust must be left
//	renewed 2 5s         the server acknowledges a renewal; 3s when it says nothing
//	                     else, and "none" for a server that says nothing at all
//	granted 1 5          request 1 is granted with token 5, then fence=4, slot=2
//	waiting 1, done 1
//	observe x            an observer, numbered from 1 in the order of observers
//	unobserve 1          it goes
//	observed x 5 v       the server tells who holds x, with which value
//	unseen x denied      the server tells that x is not observed, and why
//	refused 1 held       with a reason and, for unavailable, a server
//	closed gone          the server's last word
//	down                 the stream breaks
type script struct {
	t     *testing.T
	c     *core
	calls []*call
	taken []bool
	watch []*observer
	lease map[guard.Token]*Lease
	out   []string
	// stream: there is one that could carry a message.
	stream bool
}

// runScripts runs all scripts of a file in testdata/core. Each begins with a line
// "= " and its name; a line "opened" stands for an opened session.
func runScripts(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile("testdata/core/" + file)
	if err != nil {
		t.Fatal(err)
	}
	scripts := strings.Split(string(text), "\n= ")[1:]
	if len(scripts) == 0 {
		t.Fatal(file + " has no scripts")
	}
	for _, s := range scripts {
		name, script, _ := strings.Cut(s, "\n")
		script = strings.Replace("\n"+script, "\nopened\n", opened, 1)
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) { runScript(t, script) })
	}
}

func runScript(t *testing.T, text string) {
	t.Helper()
	s := &script{t: t, lease: map[guard.Token]*Lease{}}
	s.c = newCore([]string{"a", "b"}, Options{TTL: 3 * time.Second}, clock.Reading{}, func() float64 { return 0 })
	s.c.tick()
	s.carryOut()
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		line = strings.TrimSpace(line)
		if want, ok := strings.CutPrefix(line, "> "); ok {
			if len(s.out) == 0 || s.out[0] != want {
				t.Fatalf("expected %q, got %q", want, s.out)
			}
			s.out = s.out[1:]
			continue
		}
		if len(s.out) > 0 {
			t.Fatalf("before %q: unexpected %q", line, s.out)
		}
		if line == "" || line[0] == '#' {
			continue
		}
		s.input(strings.Fields(line))
		s.c.tick()
		s.carryOut()
	}
	if len(s.out) > 0 {
		t.Fatalf("at the end: unexpected %q", s.out)
	}
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

func (s *script) input(f []string) {
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		return ""
	}
	reply := func(r *linkpb.Reply) {
		r.Number = number(f[1])
		s.hear(&linkpb.ServerMessage{Replies: []*linkpb.Reply{r}})
	}
	switch f[0] {
	case "acquire", "try":
		c := newCall(callAcquire)
		c.wants.names, c.try, c.ctx = strings.Split(f[1], ","), f[0] == "try", context.Background()
		for _, o := range f[2:] {
			optionNamed(o).set(&c.wants)
		}
		s.begin(c)
	case "release", "check":
		c := newCall(map[string]callKind{"release": callRelease, "check": callCheck}[f[0]])
		c.on = s.lease[guard.Token(number(f[1]))]
		s.begin(c)
	case "cancel":
		c := s.calls[number(f[1])-1]
		if c.giveUp() {
			s.taken[number(f[1])-1] = true
			s.c.abandon(c)
		}
	case "open":
		s.begin(newCall(callOpen))
	case "close":
		s.c.close(time.Second)
	case "welcome":
		ttl, err := time.ParseDuration(f[1])
		if err != nil {
			panic(err)
		}
		w := &linkpb.Welcome{Cell: "cell-1", TtlNano: int64(ttl), Session: s.c.session.id}
		if w.Session == nil {
			w.Session = fmt.Append(nil, "s", s.c.line.id)
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
			ttl, _ = time.ParseDuration(f[2])
		}
		beat, _ := time.ParseDuration(arg(3))
		s.hear(&linkpb.ServerMessage{Renewal: number(f[1]), TtlNano: int64(ttl), BeatNano: int64(beat)})
	case "left":
		left := s.c.session.window.Remaining(s.c.now)
		if shared, _ := s.c.session.standing.left(s.c.now); shared != left || left/time.Millisecond != time.Duration(number(f[1])) {
			s.t.Fatalf("%v are left (%v for its leases), not %s ms", left, shared, f[1])
		}
	case "ttl":
		c := newCall(callTTL)
		var err error
		if c.ttl, err = time.ParseDuration(f[1]); err != nil {
			panic(err)
		}
		s.begin(c)
	case "granted":
		g := &linkpb.Granted{Token: number(f[2])}
		names := []string{"x"}
		if r := s.c.requests[number(f[1])]; r != nil {
			names = r.calls[0].wants.names
		}
		for _, name := range names {
			fence := &linkpb.Fence{Name: name, Fence: g.Token}
			for _, a := range f[3:] {
				if slot, ok := strings.CutPrefix(a, "slot="); ok {
					fence.Slot = uint32(number(slot))
				} else {
					fence.Fence = number(strings.TrimPrefix(a, "fence="))
				}
			}
			g.Fences = append(g.Fences, fence)
		}
		reply(&linkpb.Reply{What: &linkpb.Reply_Granted{Granted: g}})
	case "observe":
		o := newObserver(f[1])
		s.watch = append(s.watch, o)
		s.c.observe(o)
	case "unobserve":
		s.c.unobserve(s.watch[number(f[1])-1])
	case "observed":
		s.hear(&linkpb.ServerMessage{Observed: []*linkpb.Observed{{
			Name: f[1], Token: number(f[2]), Value: []byte(arg(3)), Label: "label",
		}}})
	case "unseen":
		s.hear(&linkpb.ServerMessage{Observed: []*linkpb.Observed{{Name: f[1], Reason: reasonNamed(f[2]), Message: "because"}}})
	case "waiting":
		reply(&linkpb.Reply{What: &linkpb.Reply_Waiting{Waiting: &linkpb.Waiting{Ticket: []byte("ticket" + f[1])}}})
	case "done":
		reply(&linkpb.Reply{What: &linkpb.Reply_Done{Done: &linkpb.Done{}}})
	case "refused":
		reply(&linkpb.Reply{What: &linkpb.Reply_Refused{Refused: &linkpb.Refused{
			Reason: reasonNamed(f[2]), ActiveLink: arg(3),
		}}})
	case "closed":
		s.hear(&linkpb.ServerMessage{Closed: &linkpb.Closed{Reason: reasonNamed(arg(1)), ActiveLink: arg(2)}})
	case "down":
		s.c.heard(lineEvent{id: s.c.line.id, err: errors.New("broken pipe")})
	default:
		ms, ok := strings.CutPrefix(f[0], "@")
		if !ok {
			s.t.Fatalf("what is %q?", f)
		}
		s.c.at(clock.Reading{}.Add(time.Duration(number(ms)) * time.Millisecond))
		if len(f) > 1 { // what arrived is handled before what is due
			s.input(f[1:])
		}
	}
}

func optionNamed(s string) AcquireOption {
	name, value, _ := strings.Cut(s, "=")
	switch name {
	case "shared":
		return Shared()
	case "slots":
		return Slots(int(number(value)))
	case "value":
		return Value([]byte(value))
	case "delay":
		d, err := time.ParseDuration(value)
		if err != nil {
			panic(err)
		}
		return LockDelay(d)
	}
	panic(s)
}

func reasonNamed(s string) linkpb.Reason {
	if s == "" {
		return linkpb.Reason_REASON_UNSPECIFIED
	}
	n, ok := linkpb.Reason_value["REASON_"+strings.ToUpper(s)]
	if !ok {
		panic(s)
	}
	return linkpb.Reason(n)
}

func (s *script) begin(c *call) {
	s.calls, s.taken = append(s.calls, c), append(s.taken, false)
	s.c.begin(c)
}

func (s *script) hear(m *linkpb.ServerMessage) { s.c.heard(lineEvent{id: s.c.line.id, message: m}) }

func (s *script) say(format string, args ...any) { s.out = append(s.out, fmt.Sprintf(format, args...)) }

func (s *script) carryOut() {
	e := &s.c.effects
	if e.hangUp {
		e.hangUp, s.stream = false, false
		s.say("hang up")
	}
	if a := e.dial; a != nil {
		e.dial, s.stream = nil, true
		text := fmt.Sprintf("dial %s session %q generation %d", a.server, a.hello.Session, a.hello.Generation)
		if len(a.hello.Held) > 0 || len(a.hello.Wanted) > 0 {
			text += fmt.Sprintf(" held %v wanted %v", a.hello.Held, a.hello.Wanted)
		}
		if ttl := time.Duration(a.hello.TtlNano); ttl != 3*time.Second {
			text += fmt.Sprintf(" ttl %v", ttl)
		}
		if a.hello.HighestToken > 0 {
			text += fmt.Sprintf(" seen %d", a.hello.HighestToken)
		}
		if len(a.closing) > 0 {
			text += fmt.Sprintf(" giving up %q", a.closing)
		}
		if a.hello.Unreached != "" {
			text += " past " + a.hello.Unreached
		}
		s.say("%s", text)
	}
	for m := s.c.message(); m != nil; m = s.c.message() {
		if !s.stream {
			s.t.Errorf("nothing carries %v", m)
		}
		text := fmt.Sprintf("send finished %d", m.FinishedBelow)
		if m.FinishedBelow == 0 {
			text = "send"
		}
		if m.Renewal != 0 {
			text += fmt.Sprintf(" renewal %d", m.Renewal)
		}
		if m.TtlNano != 0 {
			text += fmt.Sprintf(" ttl %v", time.Duration(m.TtlNano))
		}
		for _, r := range m.Requests {
			text += " " + requestText(r)
		}
		if len(m.Unobserve) > 0 {
			text += fmt.Sprintf(" unobserve %v", m.Unobserve)
		}
		if len(m.Observe) > 0 {
			text += fmt.Sprintf(" observe %v", m.Observe)
		}
		if m.Close {
			text += " close"
		}
		s.say("%s", text)
	}
	for _, ev := range e.events {
		s.say("event %v leases %d", ev.Kind, ev.Leases)
	}
	e.events = nil
	for i, o := range s.watch {
		select {
		case <-o.ready:
		default:
			continue
		}
		if l, err := o.take(); err != nil {
			s.say("observer %d: %v", i+1, err)
		} else {
			s.say("observer %d: %d %q", i+1, l.Token, l.Value)
		}
	}
	for i, c := range s.calls {
		if s.taken[i] || !c.decided.Load() {
			continue
		}
		s.taken[i] = true
		if c.lease != nil {
			s.lease[c.lease.token] = c.lease
			s.say("call %d: lease %d", i+1, c.lease.token)
		} else {
			s.say("call %d: %v", i+1, c.err)
		}
	}
}

func requestText(r *linkpb.Request) string {
	switch w := r.What.(type) {
	case *linkpb.Request_Acquire:
		a, verb := w.Acquire, "acquire"
		if a.Try {
			verb = "try"
		}
		text := fmt.Sprintf("%d:%s(%s", r.Number, verb, strings.Join(a.Names, ","))
		if a.Shared {
			text += " shared"
		}
		if a.Slots != 0 {
			text += fmt.Sprintf(" slots=%d", a.Slots)
		}
		if a.Value != nil {
			text += fmt.Sprintf(" value=%s", a.Value)
		}
		if a.LockDelayNano != 0 {
			text += fmt.Sprintf(" delay=%v", time.Duration(a.LockDelayNano))
		}
		text += ")"
		if w.Acquire.Ticket != nil {
			text += fmt.Sprintf("[%s]", w.Acquire.Ticket)
		}
		return text
	case *linkpb.Request_Release:
		return fmt.Sprintf("%d:release(%d)", r.Number, w.Release.Token)
	case *linkpb.Request_Check:
		return fmt.Sprintf("%d:check(%d)", r.Number, w.Check.Token)
	case *linkpb.Request_Cancel:
		return fmt.Sprintf("%d:cancel(%d)", r.Number, w.Cancel.Number)
	}
	return "?"
}
