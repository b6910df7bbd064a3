package pawl

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
)

// Nobody is where a server sends us, since it has died: from then on others are
// told so and may keep us until they take over, but not for so long that we
// would give them up, or miss that it is back.
func TestServersMayKeepWhoWasSentNowhere(t *testing.T) {
	c := newCore([]string{"a:1", "b:1"}, Options{TTL: 3 * time.Second}, clock.Reading{}, func() float64 { return 0 })
	dialled := func() *attempt {
		t.Helper()
		c.t = max(c.t, c.line.dialAt)
		c.dial()
		a := c.effects.dial
		if a == nil {
			t.Fatal("nothing is dialled")
		}
		c.effects.dial = nil
		return a
	}
	sent := func(to string) {
		c.heard(lineEvent{id: c.line.id, message: &linkpb.ServerMessage{Closed: &linkpb.Closed{
			Reason: linkpb.Reason_REASON_UNAVAILABLE, ActiveLink: to,
		}}})
	}
	if h := dialled().hello; h.WaitNano != 0 || h.Unreached != "" {
		t.Errorf("the first attempt has patience: %v", h)
	}
	sent("x:1")
	if a := dialled(); a.server != "x:1" || a.hello.Unreached != "" {
		t.Errorf("dialled %s, unreached %q", a.server, a.hello.Unreached)
	}
	c.heard(lineEvent{id: c.line.id, err: errors.New("refused")})
	for range 3 {
		a := dialled()
		patience := time.Duration(a.hello.WaitNano)
		if a.hello.Unreached != "x:1" || patience <= 0 || patience > backoffMax || c.t+patience >= c.line.giveUpAt {
			t.Errorf("%s: unreached %q, patience %v of %v", a.server, a.hello.Unreached, patience, c.line.giveUpAt-c.t)
		}
		// What is on our own list and not reached was not named by anybody.
		c.heard(lineEvent{id: c.line.id, err: errors.New("refused")})
	}
	// A server that kept us is no reason for longer pauses, however many there were.
	c.line.failures = 50
	a := dialled()
	c.t += time.Duration(a.hello.WaitNano)
	sent("x:1")
	for range 3 {
		if pause := c.line.dialAt - c.t; pause > 4*backoffMin {
			t.Errorf("kept for %v, and then a pause of %v", time.Duration(a.hello.WaitNano), pause)
		}
		dialled()
		c.heard(lineEvent{id: c.line.id, err: errors.New("refused")})
	}
	dialled()
	sent("y:1")
	if a := dialled(); a.server != "y:1" {
		t.Errorf("dialled %s", a.server)
	}
	c.heard(lineEvent{id: c.line.id, message: &linkpb.ServerMessage{Welcome: &linkpb.Welcome{
		Cell: "c", Session: make([]byte, 16), TtlNano: int64(3 * time.Second),
	}}})
	if c.line.unreached != "" || c.line.state != lineUp {
		t.Errorf("served, and %q is still said to be unreached", c.line.unreached)
	}
	// It ends its tenure in good order, after a while: whoever is asked next is
	// another, and shall keep us from the first attempt on.
	for range 2 {
		c.servers = []string{"y:1", "z:1"}
		c.t += steady
		at := c.t
		sent("")
		if a := dialled(); c.t != at || a.server != "z:1" || a.hello.Unreached != "y:1" || a.hello.WaitNano <= 0 {
			t.Errorf("after %v: %s, unreached %q, patience %v", c.t-at, a.server, a.hello.Unreached, time.Duration(a.hello.WaitNano))
		}
		c.line.turn++
		sent("y:1")
		dialled()
		c.heard(lineEvent{id: c.line.id, message: &linkpb.ServerMessage{Welcome: &linkpb.Welcome{
			Cell: "c", Session: c.session.id, TtlNano: int64(3 * time.Second),
		}}})
	}
}

// Servers that are stopped one after the other are followed without growing
// pauses; one that hangs up on us again and again is not hammered.
func TestStops(t *testing.T) { runScripts(t, "stops.txt") }
