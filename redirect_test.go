package pawl

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/session"
)

// Where a standby sends us nobody typed: when that server cannot be reached, or
// its certificate does not fit, the error says who named it, and later ones, of
// servers that are on the list, do not.
func TestRedirectErrorNamesItsServer(t *testing.T) {
	m := session.New(session.Settings{
		Servers: []string{"a:1"}, TTL: 3 * time.Second, Jitter: func() float64 { return 0 },
	}, clock.Reading{})
	failing := status.Error(codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: not for b"`)
	said := func(a *session.Attempt) string { return errorOf(explain(a, failing)).Error() }
	var now clock.Reading
	dialled := func() *session.Attempt {
		t.Helper()
		for range 10 {
			m.At(now)
			m.Tick()
			for _, e := range m.Effects() {
				if e.Kind == session.Dial {
					return e.Attempt
				}
			}
			now = now.Add(m.Wake())
		}
		t.Fatal("nothing is dialled")
		return nil
	}
	a := dialled()
	if text := said(a); !strings.HasPrefix(text, "no TLS with the server at a:1") || strings.Contains(text, "named") {
		t.Errorf("of a server of the list it says %q", text)
	}
	m.Heard(a.ID, &linkpb.ServerMessage{Closed: &linkpb.Closed{
		Reason: linkpb.Reason_REASON_UNAVAILABLE, ActiveLink: "b:1",
	}})
	a = dialled()
	text := said(a)
	if a.Server != "b:1" || !strings.HasPrefix(text, "no TLS with the server at b:1: not for b; the server at a:1 named this one as the active server") {
		t.Errorf("%s: it says %q", a.Server, text)
	}
	m.Disconnected(a.ID, explain(a, failing))
	if trouble := errorOf(m.Trouble()); trouble == nil || trouble.Error() != text {
		t.Errorf("the trouble is %v", trouble)
	}
	if a := dialled(); a.Server != "a:1" || a.SentBy != "" {
		t.Errorf("the next one is %s by way of %q", a.Server, a.SentBy)
	}
}
