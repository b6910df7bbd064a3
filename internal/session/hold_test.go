package session

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
)

// A server sends us to one that has died. From then on we report that address to the
// other servers, which may keep us until they take over. They keep us for a bounded
// time, so that we neither give them up nor miss that the dead one is back.
func TestDeadRedirectAllowsStandbyWait(t *testing.T) {
	settings := ofTwo()
	settings.Servers = []string{"a:1", "b:1"}
	m := New(settings, clock.Reading{})
	var attempt uint64
	dialled := func() *Attempt {
		t.Helper()
		m.t = max(m.t, m.conn.dialAt)
		m.dial()
		for _, e := range m.Effects() {
			if e.Kind == Dial {
				attempt = e.Attempt.ID
				return e.Attempt
			}
		}
		t.Fatal("nothing is dialled")
		return nil
	}
	sent := func(to string) {
		m.Heard(attempt, &linkpb.ServerMessage{Closed: &linkpb.Closed{
			Reason: linkpb.Reason_REASON_UNAVAILABLE, ActiveLink: to,
		}})
	}
	broken := func() { m.Disconnected(attempt, &Cause{Kind: NetworkError, NetworkErr: errors.New("refused")}) }
	welcomed := func() {
		id := m.Session()
		if id == nil {
			id = make([]byte, 16)
		}
		m.Heard(attempt, &linkpb.ServerMessage{Welcome: &linkpb.Welcome{
			Cell: "c", Session: id, TtlNano: int64(3 * time.Second),
		}})
	}
	if h := dialled().Hello; h.WaitNano != 0 || h.Unreached != "" {
		t.Errorf("the first attempt has patience: %v", h)
	}
	sent("x:1")
	if a := dialled(); a.Server != "x:1" || a.Hello.Unreached != "" {
		t.Errorf("dialled %s, unreached %q", a.Server, a.Hello.Unreached)
	}
	broken()
	for range 3 {
		a := dialled()
		patience := time.Duration(a.Hello.WaitNano)
		if a.Hello.Unreached != "x:1" || patience <= 0 || patience > backoffMax || m.t+patience >= m.conn.giveUpAt {
			t.Errorf("%s: unreached %q, patience %v of %v", a.Server, a.Hello.Unreached, patience, m.conn.giveUpAt-m.t)
		}
		// What is on our own list and not reached was not named by anybody.
		broken()
	}
	// A server that kept us is no reason for longer pauses, however many there were.
	m.conn.failures = 50
	a := dialled()
	m.t += time.Duration(a.Hello.WaitNano)
	sent("x:1")
	if m.conn.dialAt == m.t {
		t.Error("and none at all would be round in circles without a pause")
	}
	for range 3 {
		if pause := m.conn.dialAt - m.t; pause > 4*backoffMin {
			t.Errorf("kept for %v, and then a pause of %v", time.Duration(a.Hello.WaitNano), pause)
		}
		dialled()
		broken()
	}
	dialled()
	sent("y:1")
	if a := dialled(); a.Server != "y:1" {
		t.Errorf("dialled %s", a.Server)
	}
	welcomed()
	if m.conn.unreached != "" || !m.Up() {
		t.Errorf("served, and %q is still said to be unreached", m.conn.unreached)
	}
	// It ends its tenure in good order, after a while: the next server asked is
	// another, and must hold us from the first attempt on.
	for range 2 {
		m.servers = []string{"y:1", "z:1"}
		m.t += steady
		at := m.t
		sent("")
		if a := dialled(); m.t != at || a.Server != "z:1" || a.Hello.Unreached != "y:1" || a.Hello.WaitNano <= 0 {
			t.Errorf("after %v: %s, unreached %q, patience %v", m.t-at, a.Server, a.Hello.Unreached, time.Duration(a.Hello.WaitNano))
		}
		m.conn.turn++
		sent("y:1")
		dialled()
		welcomed()
	}
}
