package rest_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// fake answers everything with one error.
type fake struct {
	info cell.Info
	err  error
}

func (f fake) Info() cell.Info { return f.info }

func (f fake) OpenSession(context.Context, time.Duration, string) (string, time.Duration, error) {
	return "", 0, f.err
}

func (f fake) RenewSession(context.Context, string, time.Duration) (time.Duration, error) {
	return 0, f.err
}
func (f fake) CloseSession(context.Context, string, bool) error { return f.err }

func (f fake) Acquire(context.Context, cell.AcquireRequest) (cell.Lease, error) {
	return cell.Lease{}, f.err
}

func (f fake) RenewLease(context.Context, string, time.Duration) (cell.Renewal, error) {
	return cell.Renewal{}, f.err
}
func (f fake) Release(context.Context, string) error { return f.err }

func (f fake) List(context.Context, locktable.List) (locktable.Page, error) {
	return locktable.Page{}, f.err
}

func (f fake) Break(context.Context, locktable.Break) (locktable.Broken, error) {
	return locktable.Broken{}, f.err
}
func (f fake) Status(context.Context) (cell.Status, error) { return cell.Status{}, f.err }

func (f fake) Drill(context.Context, time.Duration) (cell.DrillReport, error) {
	return cell.DrillReport{}, f.err
}

var requests = []struct{ method, path, body string }{
	{"POST", "/v1/sessions", `{}`},
	{"POST", "/v1/sessions/x/renew", ""},
	{"DELETE", "/v1/sessions/x", ""},
	{"POST", "/v1/leases", `{"name":"a"}`},
	{"POST", "/v1/leases/x/renew", ""},
	{"DELETE", "/v1/leases/x", ""},
	{"GET", "/v1/locks", ""},
	{"POST", "/v1/break", `{"name":"a","fencing_token":"1","reason":"r"}`},
	{"GET", "/v1/status", ""},
}

func TestEveryReasonHasItsStatus(t *testing.T) {
	for reason, status := range map[locktable.Reason]int{
		locktable.Invalid: 400, locktable.Unauthenticated: 401, locktable.Denied: 403, locktable.Gone: 404,
		locktable.Held: 409, locktable.Conflict: 409, locktable.TokenMismatch: 412, locktable.Exhausted: 429,
		locktable.Unavailable: 503, locktable.RolledBack: 503,
	} {
		refused := &cell.RefusedError{Refused: locktable.Refused{Reason: reason, Message: "because"}, RetryAfter: 1500 * time.Millisecond}
		// Without a port nobody is sent there.
		c := handlerOf(t, fake{err: refused, info: cell.Info{ActiveHTTP: "10.0.0.2"}})
		for _, r := range requests {
			a := c.refused(status, string(reason), r.method, r.path, r.body)
			if a.text("detail") != "because" {
				t.Errorf("%s: detail %q", reason, a.text("detail"))
			}
			if reason == locktable.Exhausted && (a.header.Get("Retry-After") != "2" || a.text("retry_after") != "1.5s") {
				t.Errorf("exhausted: header %q, body %v", a.header.Get("Retry-After"), a.body)
			}
			if reason == locktable.Unavailable && a.text("active_http") != "10.0.0.2" {
				t.Errorf("unavailable: %v", a.body)
			}
		}
	}
}

func TestUnlistedErrorIsUnknownOutcome(t *testing.T) {
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, errors.New("odd")} {
		c := handlerOf(t, fake{err: err})
		for _, r := range requests {
			c.refused(503, "unavailable", r.method, r.path, r.body)
		}
	}
}

func TestReadiness(t *testing.T) {
	for _, tc := range []struct {
		info cell.Info
		want int
	}{
		{cell.Info{}, 503},
		{cell.Info{Active: true}, 200},
		{cell.Info{ActiveLink: "10.0.0.2:7420"}, 200},
	} {
		c := handlerOf(t, fake{info: tc.info})
		for path, want := range map[string]int{"/readyz": tc.want, "/livez": 200} {
			r, err := http.NewRequestWithContext(t.Context(), "GET", c.s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := c.s.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%+v: %s is %d", tc.info, path, res.StatusCode)
			}
		}
	}
}
