package session

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
)

func TestScriptsLeases(t *testing.T)  { runScripts(t, "leases.txt") }
func TestScriptsModes(t *testing.T)   { runScripts(t, "modes.txt") }
func TestScriptsWatches(t *testing.T) { runScripts(t, "watches.txt") }
func TestScriptsTTL(t *testing.T)     { runScripts(t, "ttl.txt") }
func TestScriptsRide(t *testing.T)    { runScripts(t, "ride.txt") }
func TestScriptsBeat(t *testing.T)    { runScripts(t, "beat.txt") }

// Servers that are stopped one after the other are followed without growing
// pauses; one that hangs up on us again and again is not hammered.
func TestScriptsStops(t *testing.T) { runScripts(t, "stops.txt") }

// What a client makes of servers that answer and will not have it.
func TestScriptsRefused(t *testing.T) { runScripts(t, "refused.txt") }

func TestScriptsRenumber(t *testing.T) { runScripts(t, "renumber.txt") }

func TestOneAcquireTooManyIsRefused(t *testing.T) {
	s := open(t, ofTwo())
	for range OutstandingMax {
		s.input([]string{"acquire", "x"})
	}
	s.input([]string{"acquire", "x"})
	last := s.calls[OutstandingMax]
	s.carryOut()
	for _, c := range s.calls[:OutstandingMax] {
		if c.answered {
			t.Fatalf("call %d: %s", c.index, text(c.why))
		}
	}
	if last.request != nil || !last.answered || last.why.Kind != TooManyRequests || last.why.Requests != OutstandingMax {
		t.Errorf("the one too many: %s", text(last.why))
	}
}

// A server refuses what lies too far apart: nothing is asked then but what is under
// way, and it goes on when the one that is behind is answered.
func TestAcquireBeyondNumberWindowIsRefused(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x") // the server says nothing to it: it has no ticket, and is not moved
	s.takeTurn(fmt.Sprint("pass ", NumbersMax-2))
	s.takeTurn("acquire y")
	if s.calls[1].answered {
		t.Fatalf("one that is near enough: %s", text(s.calls[1].why))
	}
	s.takeTurn("acquire z")
	const expected = "limit reached: request 1 of this client is not answered, and 63999 came after it"
	if c := s.calls[2]; c.request != nil || text(c.why) != expected {
		t.Errorf("one that is too far: %s", text(c.why))
	}
	s.takeTurn("granted 1 5")
	s.takeTurn("release 5", "acquire z")
	if c := s.calls[4]; c.answered {
		t.Errorf("after the answer: %s", text(c.why))
	}
}

// Work that becomes due within a moment is done at once. Otherwise Close was late when
// something else (a retry that was due) woke the loop shortly before its time, and so
// was the end of a lease.
func TestNearlyDueWorkIsDoneAtOnce(t *testing.T) {
	const soon = 300 * time.Microsecond
	settings := ofTwo()
	settings.Servers = []string{"a"}
	m := New(settings, clock.Reading{})
	m.Tick()
	m.id = []byte("cut off")
	m.Close(time.Second)
	m.At(clock.Reading{}.Add(time.Second - soon))
	m.window.Ack(m.window.Send(m.now), time.Hour)
	if got := m.Wake(); got != soon {
		t.Errorf("the loop sleeps for %v; its time is up in %v", got, soon)
	}
	m.At(clock.Reading{}.Add(time.Second))
	if got := m.Wake(); got != time.Millisecond {
		t.Errorf("what is due and not done has the loop sleep for %v", got)
	}
	m.Tick()
	if finished, confirmed := m.Finished(); !finished || confirmed {
		t.Errorf("the time is up; finished %t, confirmed %t", finished, confirmed)
	}
}

// One of several servers that says nothing does not use up what a Dial may take;
// one that is alone, or all that are slow, get their time.
func TestTimeOfTheFirstAttempts(t *testing.T) {
	for _, tc := range []struct {
		servers  []string
		failures int
		expected time.Duration
	}{
		{[]string{"a"}, 0, 5 * time.Second},
		{[]string{"a", "b"}, 0, 2 * time.Second},
		{[]string{"a", "b"}, 1, 2 * time.Second},
		{[]string{"a", "b"}, 2, 4 * time.Second},
		{[]string{"a", "b"}, 400, 5 * time.Second},
		{[]string{"a", "b", "c"}, 2, 2 * time.Second},
	} {
		m := New(Settings{Servers: tc.servers, TTL: 15 * time.Second, Jitter: func() float64 { return 0 }}, clock.Reading{})
		m.conn.failures = tc.failures
		m.Tick()
		if got := m.Wake(); got != tc.expected {
			t.Errorf("%d servers, %d failures: %v, expected %v", len(tc.servers), tc.failures, got, tc.expected)
		}
	}
}

// Scripts have one line for the last word to an observer and to a caller. Nobody gets two.
func TestCloseAnswersEveryCallerOnce(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x", "granted 1 5")
	s.takeTurn("acquire y", "try z", "check 5", "release 5", "release 5", "ttl 6s", "observe x", "observe x")
	s.takeTurn("close")
	s.takeTurn("acquire y", "check 5", "release 5", "ttl 6s", "observe x", "open")
	s.takeTurn("@1001")
	for _, c := range s.calls {
		if !c.answered {
			t.Errorf("call %d is not answered", c.index)
		}
	}
	for _, o := range s.watch {
		if !o.ended {
			t.Errorf("observer %d is not told", o.index)
		}
	}
	if finished, confirmed := s.m.Finished(); !finished || confirmed {
		t.Errorf("finished %t, confirmed %t", finished, confirmed)
	}
	if s.m.Session() == nil || strings.Contains(text(s.m.Trouble()), "closed") {
		t.Errorf("session %q, trouble %s", s.m.Session(), text(s.m.Trouble()))
	}
}

// A caller of Release is told at the deadline, however late it came, that there is no
// answer: renewals are answered all the while.
func TestReleaseWithoutAnAnswerWaitsForTheDeadline(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x", "granted 1 5")
	now := 0
	step := func() {
		now += 10
		s.out = nil
		s.takeTurn(fmt.Sprintf("@%d", now))
		for _, line := range s.out {
			if _, n, renews := strings.Cut(line, " renewal "); renews {
				s.takeTurn("renewed " + n)
			}
		}
	}
	for now < 5000 {
		step()
	}
	s.takeTurn("release 5")
	from, deadline := now, now+int(s.m.window.Remaining(s.m.now)/time.Millisecond)
	for c := s.calls[1]; !c.answered; {
		step()
	}
	if why := text(s.calls[1].why); why != "no server answered" || now > deadline || now < deadline-1000 {
		t.Errorf("after %d ms of %d: %s", now-from, deadline-from, why)
	}
}

// Clients that met the same limit do not come back in step.
func TestPauseOfARefusedRequestVaries(t *testing.T) {
	settings := ofTwo()
	settings.Jitter = func() float64 { return 0.5 }
	s := open(t, settings)
	s.takeTurn("acquire x", "refused 1 exhausted")
	s.out = nil
	s.takeTurn("@149")
	if len(s.out) != 0 {
		t.Errorf("too early: %q", s.out)
	}
	s.takeTurn("@150")
	if len(s.out) != 1 || s.out[0] != "send finished 2 2:acquire(x)" {
		t.Errorf("when the pause is over: %q", s.out)
	}
}

// What was to be sent when the stream broke is asked once on the next one.
func TestUnsentRequestIsAskedOnceOnTheNextStream(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x", "down")
	s.takeTurn("@20")
	s.out = nil
	s.takeTurn("@30 welcome 3s")
	if len(s.out) != 1 || s.out[0] != "send finished 1 1:acquire(x)" {
		t.Errorf("on the next stream: %q", s.out)
	}
}

// Servers that send us round in circles at once, and keep nobody, are asked less and less.
func TestRedirectLoopsBackOff(t *testing.T) {
	s := start(t, ofTwo())
	at, asked := 0, 0
	for ; at < 2000; at++ {
		s.takeTurn(fmt.Sprintf("@%d", at))
		if s.stream {
			asked++
			s.takeTurn("closed unavailable " + map[string]string{"a": "b", "b": "a"}[s.attempt.Server])
		}
	}
	if asked < 5 || asked > 30 {
		t.Errorf("asked %d times in %d ms", asked, at)
	}
}

// A check that was to be sent when the stream broke has a renewal of the next stream: one
// that was never sent is never answered.
func TestUnsentCheckIsRenewedOnNextStream(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x", "granted 1 5")
	s.takeTurn("check 5", "down")
	s.takeTurn("@20")
	s.out = nil
	s.takeTurn("@30 welcome 3s")
	if len(s.out) != 1 || s.out[0] != "send finished 2 renewal 4 2:check(5)" {
		t.Fatalf("on the next stream: %q", s.out)
	}
	s.takeTurn("done 2", "renewed 4")
	if c := s.calls[1]; !c.answered || c.why != nil {
		t.Errorf("the check: answered %t, %s", c.answered, text(c.why))
	}
}

// A greeting says which number is next, so that the server knows one that was overtaken.
func TestGreetingCarriesNextNumber(t *testing.T) {
	s := open(t, ofTwo())
	s.takeTurn("acquire x", "acquire y")
	s.takeTurn("down")
	s.takeTurn("@20")
	if next := s.attempt.Hello.NextNumber; next != 3 {
		t.Errorf("after two requests number %d is next", next)
	}
}

// Tenures of one cell say nothing about those of another: the first one there is news,
// and what failed before it is no reason for pauses.
func TestTenureIsPerCell(t *testing.T) {
	s := open(t, ofTwo())
	s.m.conn.epoch, s.m.conn.failures = 7, 10
	s.takeTurn("closed gone")
	s.hear(&linkpb.ServerMessage{Welcome: &linkpb.Welcome{
		Cell: "cell-2", Epoch: 3, Session: []byte("t"), TtlNano: int64(3 * time.Second),
	}})
	s.takeTurn()
	if n := s.m.conn.failures; n != 0 {
		t.Errorf("welcomed by another cell, and %d failures count", n)
	}
}

// The driver wakes up for all that becomes due, however long the TTL is.
func TestWakeUpForDueWork(t *testing.T) {
	opened := func(lines ...string) *script {
		settings := ofTwo()
		settings.TTL = time.Hour
		s := start(t, settings)
		s.takeTurn("welcome 1h")
		for _, line := range lines {
			s.takeTurn(line)
		}
		return s
	}
	for _, x := range []struct {
		what string
		s    *script
		want time.Duration
	}{
		{"nothing but a renewal", opened(), 10 * time.Minute},
		{"a request that rests", opened("acquire x", "refused 1 exhausted"), exhaustedPause},
		{"a server that is silent", opened("acquire x", "granted 1 5", "check 5"), patienceMax},
		{"a pause before the next attempt", opened("down"), backoffMin / 2},
		{"an attempt", opened("down", "@10"), attemptMax},
		{"the end", opened("down", "@10", "@6000 down", "close"), time.Second},
	} {
		if got := x.s.m.Wake(); got != x.want {
			t.Errorf("%s: the driver sleeps for %v, want %v", x.what, got, x.want)
		}
	}
}

// A caller of Release is told at the deadline also when nothing wakes the driver but what
// it was told to wait for.
func TestReleaseWithoutAnAnswerWakesTheDriver(t *testing.T) {
	for begin := 0; begin < 500; begin += 20 {
		s := open(t, ofTwo())
		s.takeTurn("acquire x", "granted 1 5")
		now, deadline := time.Duration(0), time.Duration(0)
		turn := func() {
			s.out = nil
			s.takeTurn("@" + strconv.Itoa(int(now/time.Millisecond)))
			for _, line := range s.out {
				if _, n, renews := strings.Cut(line, " renewal "); renews {
					s.takeTurn("renewed " + n)
				}
			}
		}
		for now = 0; now < time.Duration(begin)*time.Millisecond; now += min(s.m.Wake(), time.Duration(begin)*time.Millisecond-now) {
			turn()
		}
		turn()
		s.takeTurn("release 5")
		deadline = now + s.m.window.Remaining(s.m.now)
		for c := s.calls[1]; !c.answered; turn() {
			now += s.m.Wake().Round(time.Millisecond)
		}
		if now > deadline+time.Millisecond {
			t.Errorf("asked after %d ms: told %v after the deadline", begin, now-deadline)
		}
	}
}
