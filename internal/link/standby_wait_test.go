package link

import (
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

// A client with patience is kept by a server that is not active, for as long as it
// says; one without is told at once, and one that goes is not waited for.
func TestStandbyKeepsPatientClient(t *testing.T) {
	c := serve(t, true)
	first := hello()
	first.WaitNano = int64(300 * time.Millisecond)
	begun := time.Now()
	st := attach(t, c, &linkpb.ClientMessage{Hello: first})
	if m := recv(t, st); m.GetClosed().GetReason() != linkpb.Reason_REASON_UNAVAILABLE || time.Since(begun) < 300*time.Millisecond {
		t.Errorf("after %v it was told %v", time.Since(begun), m)
	}
	if m := recv(t, attach(t, c, &linkpb.ClientMessage{Hello: hello()})); m.GetClosed().GetReason() != linkpb.Reason_REASON_UNAVAILABLE {
		t.Errorf("without patience it was told %v", m)
	}

	// Patience costs nothing where a server serves.
	active := serve(t, false)
	first = hello()
	first.WaitNano, first.Unreached = int64(time.Hour), "here"
	if m := recv(t, attach(t, active, &linkpb.ClientMessage{Hello: first})); m.GetWelcome() == nil {
		t.Errorf("the active server said %v", m)
	}
}
