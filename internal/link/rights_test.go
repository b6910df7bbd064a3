package link

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
)

// Every call that there is, by whoever has one right below a prefix, all or none: a
// call that is added needs its row.
func TestEveryCallByEveryRight(t *testing.T) {
	const free = access.Right(255) // needs none
	rights := map[string][]access.Right{
		"none": nil, "reader": {access.Read}, "taker": {access.Hold}, "breaker": {access.Break}, "chief": {access.Admin},
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
			"Status": {free, false, false, func(ctx context.Context, _ string) error {
				_, err := c.Status(ctx, &linkpb.StatusRequest{})
				return err
			}},
		}
		for _, m := range linkpb.Link_ServiceDesc.Methods {
			if _, known := rows[m.MethodName]; !known {
				t.Errorf("%s has no row", m.MethodName)
			}
		}
		for method, row := range rows {
			for who, has := range rights {
				may := row.needs == free || slices.Contains(has, row.needs) || slices.Contains(has, access.Admin)
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
