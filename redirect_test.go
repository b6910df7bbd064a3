package pawl

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
)

// Where a standby sends us nobody typed: when that server cannot be reached, or
// its certificate does not fit, the error says who named it, and later ones, of
// servers that are on the list, do not.
func TestWhoSentUsIsTold(t *testing.T) {
	c := newCore([]string{"a:1"}, Options{TTL: 3 * time.Second}, clock.Reading{}, func() float64 { return 0 })
	failing := status.Error(codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: not for b"`)
	dialled := func() *attempt {
		t.Helper()
		c.t = max(c.t, c.line.dialAt)
		c.dial()
		a := c.effects.dial
		if a == nil {
			t.Fatal("nothing is dialled")
		}
		return a
	}
	if text := explain(dialled(), failing).Error(); strings.Contains(text, "named") {
		t.Errorf("of a server of the list it says %q", text)
	}
	c.heard(lineEvent{id: c.line.id, message: &linkpb.ServerMessage{Closed: &linkpb.Closed{
		Reason: linkpb.Reason_REASON_UNAVAILABLE, ActiveLink: "b:1",
	}}})
	a := dialled()
	text := explain(a, failing).Error()
	if a.server != "b:1" || !strings.HasPrefix(text, "no TLS with the server at b:1: not for b; the server at a:1 named this one as the active server") {
		t.Errorf("%s: it says %q", a.server, text)
	}
	c.failed(explain(a, failing))
	if a := dialled(); a.server != "a:1" || a.sentBy != "" {
		t.Errorf("the next one is %s by way of %q", a.server, a.sentBy)
	}
}
