package link

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
)

// Every call, by callers with one right below a prefix, with all or with none: a
// call that is added needs its row.
func TestEveryCallByEveryRight(t *testing.T) {
	const (
		free       = access.Right(255) // needs none
		everywhere = access.Right(254) // needs admin of all names
	)
	rights := map[string][]access.Right{
		"none": nil, "reader": {access.Read}, "holder": {access.Hold}, "breaker": {access.Break}, "chief": {access.Admin},
	}
	grants := map[string][]access.Grant{"root": {{Prefix: "", Rights: []access.Right{access.Admin}}}}
	for who, what := range rights {
		grants[who] = []access.Grant{{Prefix: "a/", Rights: what}}
	}
	synctest.Test(t, func(t *testing.T) {
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, grants))})
		root := as(context.Background(), "root")
		held := map[string]*linkpb.AcquireResponse{}
		for _, name := range []string{"a/held", "b/held"} {
			l, err := c.Acquire(root, &linkpb.AcquireRequest{Name: name, TtlNano: int64(time.Hour)})
			if err != nil {
				t.Fatal(err)
			}
			held[name] = l
		}
		session, err := c.OpenSession(root, &linkpb.OpenSessionRequest{TtlNano: int64(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		rows := map[string]struct {
			needs access.Right
			// named: what is asked for has a name, below a/ or below b/.
			named bool
			// of: it is about what another has, which is not there for anybody else.
			of bool
			do func(ctx context.Context, prefix string) error
		}{
			"OpenSession": {access.Hold, false, false, func(ctx context.Context, _ string) error {
				_, err := c.OpenSession(ctx, &linkpb.OpenSessionRequest{})
				return err
			}},
			"RenewSession": {free, false, true, func(ctx context.Context, _ string) error {
				_, err := c.RenewSession(ctx, &linkpb.RenewSessionRequest{Session: session.Session})
				return err
			}},
			"CloseSession": {free, false, true, func(ctx context.Context, _ string) error {
				_, err := c.CloseSession(ctx, &linkpb.CloseSessionRequest{Session: session.Session})
				return err
			}},
			"Acquire": {access.Hold, true, false, func(ctx context.Context, prefix string) error {
				l, err := c.Acquire(ctx, &linkpb.AcquireRequest{Name: prefix + "free"})
				if err == nil {
					_, err = c.Release(ctx, &linkpb.ReleaseRequest{Lease: l.Lease})
				}
				return err
			}},
			"RenewLease": {free, false, true, func(ctx context.Context, _ string) error {
				_, err := c.RenewLease(ctx, &linkpb.RenewLeaseRequest{Lease: held["a/held"].Lease})
				return err
			}},
			"Release": {free, false, true, func(ctx context.Context, _ string) error {
				_, err := c.Release(ctx, &linkpb.ReleaseRequest{Lease: held["a/held"].Lease})
				return err
			}},
			"List": {access.Read, true, false, func(ctx context.Context, prefix string) error {
				_, err := c.List(ctx, &linkpb.ListRequest{Name: prefix + "held"})
				return err
			}},
			"Break": {access.Break, true, false, func(ctx context.Context, prefix string) error {
				_, err := c.Break(ctx, &linkpb.BreakRequest{Name: prefix + "held", Token: held[prefix+"held"].Token, Reason: "r"})
				return err
			}},
			"Drill": {everywhere, false, false, func(ctx context.Context, _ string) error {
				_, err := c.Drill(ctx, &linkpb.DrillRequest{ForNano: 1})
				return err
			}},
			"Status": {free, false, false, func(ctx context.Context, _ string) error {
				_, err := c.Status(ctx, &linkpb.StatusRequest{})
				return err
			}},
		}
		for _, m := range linkpb.Link_ServiceDesc.Methods {
			// Those of members: TestMembersAreForTheAdminOfAllNames.
			if _, known := rows[m.MethodName]; !known && !strings.HasPrefix(m.MethodName, "Member") {
				t.Errorf("%s has no row", m.MethodName)
			}
		}
		for method, row := range rows {
			for who, has := range rights {
				may := row.needs == free || row.needs != everywhere && (slices.Contains(has, row.needs) || slices.Contains(has, access.Admin))
				for _, prefix := range []string{"a/", "b/"} {
					expected := codes.OK
					switch {
					case row.of:
						expected = codes.NotFound
					case !may, row.named && prefix == "b/":
						expected = codes.PermissionDenied
					}
					if got := status.Code(row.do(as(context.Background(), who), prefix)); got != expected {
						t.Errorf("%s by %s below %s: %v, expected %v", method, who, prefix, got, expected)
					}
				}
			}
			if got := status.Code(row.do(as(context.Background(), "stranger"), "a/")); got != codes.Unauthenticated {
				t.Errorf("%s by a stranger: %v", method, got)
			}
		}
	})
}

// A lease of several names needs the right for each of them, and each refusal is counted.
func TestEveryNameOfALeaseNeedsItsRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := access.NewGate(policyOf(t, people()))
		c := serveWith(t, false, Options{Gate: gate})
		st := open(t, c, "a", &linkpb.ClientMessage{Hello: hello()})
		recv(t, st)
		time.Sleep(time.Second)
		for i, x := range []struct {
			names  []string
			denied bool
		}{
			{[]string{"a/1", "a/2"}, false},
			{[]string{"a/3", "b/1"}, true},
			{[]string{"b/1", "a/3"}, true},
			{[]string{"a/3", "a/4", "b/1"}, true},
		} {
			before := gate.Denied.Load()
			if err := st.Send(tries(uint64(i+1), x.names...)); err != nil {
				t.Fatal(err)
			}
			r := answer(t, st, uint64(i+1))
			counted := gate.Denied.Load() - before
			if denied := r.GetRefused().GetReason() == linkpb.Reason_REASON_DENIED; denied != x.denied || denied != (counted == 1) {
				t.Errorf("%q: %v, and %d are counted", x.names, r, counted)
			}
		}
	})
}

// full is an audit log whose log takes nothing more down.
type full struct{ auditRecorder }

func (*full) Writable() bool { return false }

// Where the audit log must be kept and cannot be, streams are granted nothing either.
func TestStreamGrantNeedsRequiredAuditLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, people())), Audit: &full{}})
		st := open(t, c, "a", &linkpb.ClientMessage{Hello: hello()})
		recv(t, st)
		time.Sleep(time.Second)
		if err := st.Send(tries(1, "a/1")); err != nil {
			t.Fatal(err)
		}
		if r := answer(t, st, 1); r.GetRefused().GetReason() != linkpb.Reason_REASON_UNAVAILABLE {
			t.Errorf("answered %v", r)
		}
	})
}

// Who tries out which names there are leaves a line for each that may not be read, and
// is told of the others of the message.
func TestDeniedObservationIsAudited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &auditRecorder{}
		c := serveWith(t, false, Options{Gate: access.NewGate(policyOf(t, people())), Audit: notes})
		st := open(t, c, "eye", &linkpb.ClientMessage{Hello: hello()})
		recv(t, st)
		if err := st.Send(&linkpb.ClientMessage{Observe: []string{"a/1", "b/1", "a/2"}}); err != nil {
			t.Fatal(err)
		}
		told := map[string]linkpb.Reason{}
		for len(told) < 3 {
			for _, o := range recv(t, st).Observed {
				told[o.Name] = o.Reason
			}
		}
		if told["a/1"] != 0 || told["a/2"] != 0 || told["b/1"] != linkpb.Reason_REASON_DENIED {
			t.Errorf("told %v", told)
		}
		d, noted := notes.find("observe", "denied")
		if !noted || d.Identity != "eye" || d.Remote == "" || !slices.Equal(d.Names, []string{"b/1"}) {
			t.Errorf("noted %t: %+v", noted, d)
		}
	})
}

// The limit of an identity's acquires goes with its greeting to the cell.
func TestStreamHasLimitOfItsIdentity(t *testing.T) {
	i := access.NewIdentity("a", access.Limits{Acquires: 7})
	if h := (&streamCaller{}).hello(hello(), i); h.QueuedMax != 7 || h.Identity != "a" {
		t.Errorf("the cell is told %+v", h)
	}
}
