package link

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/pawlproject/pawl/api/linkpb"
)

// A drill over the link: status tells of it, a second one is a conflict, and the report
// has what greetings tell of rides.
func TestDrill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serve(t, false)
		st := attach(t, c, &linkpb.ClientMessage{Hello: hello()})
		session := recv(t, st).GetWelcome().GetSession()
		lost, err := c.Acquire(t.Context(), &linkpb.AcquireRequest{Name: "lost", Label: "gone"})
		if err != nil {
			t.Fatal(err)
		}
		report := make(chan *linkpb.DrillResponse, 1)
		go func() {
			r, err := c.Drill(t.Context(), &linkpb.DrillRequest{ForNano: int64(time.Minute)})
			if err != nil {
				t.Error(err)
			}
			report <- r
		}()
		time.Sleep(40 * time.Second)
		status := func() time.Duration {
			s, err := c.Status(t.Context(), &linkpb.StatusRequest{})
			if err != nil {
				t.Fatal(err)
			}
			return time.Duration(s.DrillNano).Round(time.Second)
		}
		if left := status(); left != 20*time.Second {
			t.Errorf("%v of it are left", left)
		}
		_, err = c.Drill(t.Context(), &linkpb.DrillRequest{ForNano: 1})
		if no := detail(t, err, codes.Aborted); no.GetReason() != linkpb.Reason_REASON_CONFLICT {
			t.Errorf("a second drill: %v", err)
		}
		_, err = c.Drill(t.Context(), &linkpb.DrillRequest{ForNano: int64(time.Hour) + 1})
		if no := detail(t, err, codes.InvalidArgument); no.GetReason() != linkpb.Reason_REASON_INVALID {
			t.Errorf("more than an hour: %v", err)
		}

		again := hello()
		again.Session, again.Generation, again.RidingNano = session, 2, int64(30*time.Second)
		st = attach(t, c, &linkpb.ClientMessage{Hello: again})
		if recv(t, st).GetWelcome() == nil || status() != 0 {
			t.Error("the greeting was not answered after the drill")
		}
		if err := st.Send(&linkpb.ClientMessage{Renewal: 1}); err != nil {
			t.Fatal(err)
		}
		r := <-report
		if r.GetSessions() != 2 || r.GetLostCount() != 1 || r.GetRidesCount() != 1 || r.GetMissing() != 0 || time.Duration(r.GetLastedNano()) != time.Minute {
			t.Fatalf("%v", r)
		}
		if x := r.Lost[0]; x.Names[0] != "lost" || x.Leases != 1 || x.Holder == "" {
			t.Errorf("%v", x)
		}
		if rode := time.Duration(r.Rides[0].RodeNano).Round(time.Second); rode != 50*time.Second {
			t.Errorf("it rode for %v; 30s, and the 20s to the end, were expected", rode)
		}
		if _, err := c.RenewLease(context.WithoutCancel(t.Context()), &linkpb.RenewLeaseRequest{Lease: lost.Lease}); err == nil {
			t.Error("the lost lease lives")
		}
	})
}
