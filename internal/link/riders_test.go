package link

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

// What the link says of leases that claim and ride, both ways.
func TestRidersOnTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		ctx := t.Context()
		l, err := c.Acquire(ctx, &linkpb.AcquireRequest{Name: "a", Claims: true, RideThroughNano: int64(time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
		listed := func() *linkpb.Lock {
			t.Helper()
			page, err := c.List(ctx, &linkpb.ListRequest{Name: "a"})
			if err != nil || len(page.Locks) != 1 {
				t.Fatalf("listed: %v, %v", page, err)
			}
			return page.Locks[0]
		}
		if h := listed().Holders[0]; h.Grade != linkpb.Grade_GRADE_CLAIMED || h.RideThroughNano != int64(time.Minute) {
			t.Errorf("the rider is listed as %v", h)
		}
		st := attach(t, c, &linkpb.ClientMessage{Hello: hello()})
		if recv(t, st).Welcome == nil {
			t.Fatal("no welcome")
		}
		ask := func(number uint64, a *linkpb.Acquire) {
			t.Helper()
			if err := st.Send(&linkpb.ClientMessage{Requests: []*linkpb.Request{{Number: number, What: &linkpb.Request_Acquire{Acquire: a}}}}); err != nil {
				t.Fatal(err)
			}
		}
		ask(1, &linkpb.Acquire{Names: []string{"a"}})
		if w := recv(t, st).Replies[0].GetWaiting(); w == nil || w.ClaimOnlyNano != 0 {
			t.Errorf("while it is held the first answer is %v", w)
		}
		b, err := c.Break(ctx, &linkpb.BreakRequest{Name: "a", Token: l.Token, Reason: "r", Now: true})
		if err != nil || !b.Ended || b.RidesOnNano != int64(time.Minute) {
			t.Errorf("broken: %v, %v", b, err)
		}
		if w := recv(t, st).Replies[0].GetWaiting(); w == nil || w.ClaimOnlyNano != int64(time.Minute) {
			t.Errorf("after the break its waiter is told %v", w)
		}
		if x := listed(); x.ClaimOnlyNano <= 0 || x.ClaimOnlyNano > int64(time.Minute) || x.ClosedForNano != 0 {
			t.Errorf("after the break the name is listed as %v", x)
		}
		ask(2, &linkpb.Acquire{Names: []string{"a"}, Claims: true, RideThroughNano: int64(time.Second)})
		g := recv(t, st).Replies[0].GetGranted()
		if g == nil {
			t.Fatal("one that claims is not granted")
		}
		if h := listed().Holders[0]; h.Token != g.Token || h.RideThroughNano != int64(time.Second) {
			t.Errorf("the next rider is listed as %v", h)
		}
		ask(3, &linkpb.Acquire{Names: []string{"b"}, RideThroughNano: int64(time.Second)})
		if no := recv(t, st).Replies[0].GetRefused(); no.GetReason() != linkpb.Reason_REASON_INVALID {
			t.Errorf("a ride without a claim: %v", no)
		}
	})
}
