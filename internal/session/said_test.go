package session

import (
	"errors"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
)

// Of three servers one answers that it does not serve, and why. The others cannot be
// reached, which says less: for a round the trouble is what the one said. It is forgotten
// with a welcome, and when it says no more.
func TestServersThatAreGoneSayLess(t *testing.T) {
	settings := ofTwo()
	settings.Servers = []string{"a:1", "b:1", "c:1"}
	m := New(settings, clock.Reading{})
	var attempt uint64
	dial := func() {
		t.Helper()
		m.t = max(m.t, m.conn.dialAt)
		m.dial()
		for _, e := range m.Effects() {
			if e.Kind == Dial {
				attempt = e.Attempt.ID
				return
			}
		}
		t.Fatal("nothing is dialled")
	}
	gone := &Cause{Kind: NetworkError, NetworkErr: errors.New("refused")}
	broken := func() {
		t.Helper()
		dial()
		m.Disconnected(attempt, gone)
	}
	closed := func() {
		m.Heard(attempt, &linkpb.ServerMessage{Closed: &linkpb.Closed{Reason: linkpb.Reason_REASON_UNAVAILABLE, Message: "it waits"}})
	}
	said := func() bool { return m.Trouble().Is(linkpb.Reason_REASON_UNAVAILABLE) }
	for range 2 {
		dial()
		closed()
		for range 2 {
			if broken(); !said() {
				t.Fatalf("the trouble is %+v", m.Trouble())
			}
		}
	}
	if broken(); said() || m.Trouble() != gone {
		t.Errorf("a server that says no more is still heard: %+v", m.Trouble())
	}

	dial()
	closed()
	dial()
	m.Heard(attempt, &linkpb.ServerMessage{Welcome: &linkpb.Welcome{Cell: "c", Session: make([]byte, 16), TtlNano: int64(3 * time.Second)}})
	m.Disconnected(attempt, gone)
	if m.Trouble() != gone {
		t.Errorf("after a welcome the trouble is %+v", m.Trouble())
	}
}
