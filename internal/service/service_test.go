package service_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/service"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// ledger is a audit log.
type ledger struct {
	mu      sync.Mutex
	records []access.AuditRecord
	ill     bool
}

func (l *ledger) Record(d access.AuditRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = append(l.records, d)
}

func (l *ledger) Writable() bool { return !l.ill }

// last is the last record with a verb.
func (l *ledger) last(verb string) access.AuditRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range slices.Backward(l.records) {
		if d.Verb == verb {
			return d
		}
	}
	return access.AuditRecord{}
}

// office is a service with a cell behind it and people who may do this and that.
type office struct {
	*service.Service
	t      *testing.T
	gate   *access.Gate
	ledger *ledger
	disk   *memstore.Disk
	// pass lets the bubble's time pass.
	pass func(time.Duration)
}

func secret(of string) string { return "pawl_" + of + strings.Repeat("-", 32) }

var people = map[string][]access.Grant{
	"a":      {{Prefix: "a/", Rights: []access.Right{access.Read, access.Hold, access.Break}}},
	"b":      {{Prefix: "b/", Rights: []access.Right{access.Read, access.Hold, access.Break}}, {Prefix: "a/shared/", Rights: []access.Right{access.Hold}}},
	"eye":    {{Prefix: "", Rights: []access.Right{access.Read}}},
	"root":   {{Prefix: "", Rights: []access.Right{access.Admin}}},
	"nobody": nil,
}

func policy(t testing.TB, without ...string) *access.Policy {
	t.Helper()
	var all []access.Entry
	for name, grants := range people {
		if !slices.Contains(without, name) {
			all = append(all, access.Entry{
				Identity: access.NewIdentity(name, access.Limits{}, grants...), Credentials: []access.Digest{access.DigestOf(secret(name))},
			})
		}
	}
	p, err := access.NewPolicy(all...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// inOffice runs a test in a bubble.
func inOffice(t *testing.T, test func(o *office)) {
	synctest.Test(t, func(t *testing.T) {
		k, disk := clock.Bubble(), memstore.NewDisk()
		c := cell.New(cell.Options{
			Store: disk.Store(memstore.Options{Clock: k, Sole: true}), Clock: k, Name: "test", ActiveTTL: 3 * time.Second,
		})
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- c.Run(ctx) }()
		<-c.Ready()
		o := &office{t: t, gate: access.NewGate(policy(t)), ledger: &ledger{}, disk: disk, pass: time.Sleep}
		o.Service = service.New(c, o.gate, o.ledger)
		test(o)
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// as is a context of somebody.
func (o *office) as(who string) context.Context {
	return access.Present(o.t.Context(), access.Proof{Authorization: []string{"Bearer " + secret(who)}, Remote: "10.0.0.9:1"})
}

func (o *office) acquire(who string, names ...string) cell.Lease {
	o.t.Helper()
	l, err := o.Acquire(o.as(who), cell.AcquireRequest{Names: names, TTL: time.Minute})
	if err != nil {
		o.t.Fatalf("%s acquires %q: %v", who, names, err)
	}
	return l
}

func reasonOf(err error) locktable.Reason {
	var no *cell.RefusedError
	if errors.As(err, &no) {
		return no.Reason
	}
	return locktable.Reason(fmt.Sprint(err))
}

// What each identity may do with a name, on every call there is.
func TestWhatEachRightAllows(t *testing.T) {
	inOffice(t, func(o *office) {
		held := o.acquire("root", "a/held")
		const ok = locktable.Reason("<nil>")
		calls := map[string]func(context.Context) error{
			"acquire": func(ctx context.Context) error {
				l, err := o.Acquire(ctx, cell.AcquireRequest{Names: []string{"a/free"}, TTL: time.Minute})
				if err == nil {
					err = o.Release(ctx, l.ID)
				}
				return err
			},
			"show": func(ctx context.Context) error { _, err := o.List(ctx, locktable.List{Name: "a/held"}); return err },
			"list": func(ctx context.Context) error {
				p, err := o.List(ctx, locktable.List{})
				if err == nil && len(p.Locks) == 0 {
					return errors.New("nothing")
				}
				return err
			},
			"break": func(ctx context.Context) error {
				_, err := o.Break(ctx, locktable.Break{Name: "a/held", Token: held.Granted.Token, Reason: "r"})
				return err
			},
			"open": func(ctx context.Context) error { _, _, err := o.OpenSession(ctx, 0, ""); return err },
			"status": func(ctx context.Context) error {
				s, err := o.Status(ctx)
				if err == nil && s.Partial {
					return errors.New("partial")
				}
				return err
			},
			"metrics": func(ctx context.Context) error { return o.Metrics(ctx) },
		}
		for who, expected := range map[string]map[string]locktable.Reason{
			"a":      {"acquire": ok, "show": ok, "list": ok, "break": ok, "open": ok, "status": "partial", "metrics": "denied"},
			"b":      {"acquire": "denied", "show": "denied", "list": "nothing", "break": "denied", "open": ok, "status": "partial", "metrics": "denied"},
			"eye":    {"acquire": "denied", "show": ok, "list": ok, "break": "denied", "open": "denied", "status": "partial", "metrics": ok},
			"root":   {"acquire": ok, "show": ok, "list": ok, "break": ok, "open": ok, "status": ok, "metrics": ok},
			"nobody": {"acquire": "denied", "show": "denied", "list": "nothing", "break": "denied", "open": "denied", "status": "partial", "metrics": "denied"},
		} {
			for what, call := range calls {
				if got := reasonOf(call(o.as(who))); got != expected[what] {
					t.Errorf("%s, %s: %q, expected %q", who, what, got, expected[what])
				}
			}
		}
		for what, call := range calls {
			for name, ctx := range map[string]context.Context{"nothing": t.Context(), "nobody's": o.as("stranger")} {
				if got := reasonOf(call(ctx)); got != locktable.Unauthenticated {
					t.Errorf("with %s, %s: %q", name, what, got)
				}
			}
		}
		if d := o.ledger.last("acquire"); d.Outcome != "unauthenticated" {
			t.Errorf("noted: %+v", d)
		}
	})
}

// An id is a capability for its identity alone: with another it is no id at all.
func TestIDOfOtherIdentityIsNotFound(t *testing.T) {
	inOffice(t, func(o *office) {
		session, _, err := o.OpenSession(o.as("a"), time.Minute, "")
		if err != nil {
			t.Fatal(err)
		}
		l := o.acquire("a", "a/1")
		for _, who := range []string{"b", "root"} {
			none := o.as(who)
			for what, err := range map[string]error{
				"renew session": second(o.RenewSession(none, session, 0)),
				"close session": o.CloseSession(none, session, false),
				"renew lease":   second(o.RenewLease(none, l.ID, 0)),
				"release":       o.Release(none, l.ID),
				"acquire":       second(o.Acquire(none, cell.AcquireRequest{Names: []string{"b/1"}, Session: session, RequestID: "r"})),
				"renew own":     second(o.RenewSession(none, l.Session, 0)),
			} {
				if who == "root" && what == "acquire" {
					err = second(o.Acquire(none, cell.AcquireRequest{Names: []string{"a/2"}, Session: session, RequestID: "r"}))
				}
				var no *cell.RefusedError
				if !errors.As(err, &no) || no.Reason != locktable.Gone || !strings.HasPrefix(no.Message, "no such ") {
					t.Errorf("%s, %s: %v", who, what, err)
				}
			}
		}
		if _, err := o.RenewSession(o.as("a"), session, 0); err != nil {
			t.Errorf("its own: %v", err)
		}
		if _, err := o.RenewLease(o.as("a"), l.ID, 0); err != nil {
			t.Errorf("its own: %v", err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// A request id is its identity's: another one's finds nothing, and does not hear
// that there is something.
func TestRequestIDOfOtherIdentityIsNotFound(t *testing.T) {
	inOffice(t, func(o *office) {
		ask := func(who, name string) (cell.Lease, error) {
			return o.Acquire(o.as(who), cell.AcquireRequest{Names: []string{name}, TTL: time.Minute, RequestID: "r"})
		}
		first, err := ask("a", "a/1")
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ask("a", "a/1"); err != nil || again.ID != first.ID {
			t.Errorf("again: %v", err)
		}
		other, err := ask("b", "b/1")
		if err != nil || other.ID == first.ID {
			t.Errorf("of another identity: %v", err)
		}
		if _, err := ask("b", "a/1"); reasonOf(err) != locktable.Denied {
			t.Errorf("of another identity, for the same name: %v", err)
		}
	})
}

// A listing holds what may be read; its pages are whole and tell nothing of the
// rest.
func TestPagesShowReadableNamesOnly(t *testing.T) {
	inOffice(t, func(o *office) {
		names := []string{"a", "a/", "a/1", "a/2", "a/3", "a/shared/1", "a0", "b/1", "b/2", "c/1"}
		for _, n := range names {
			o.acquire("root", n)
		}
		see := func(who, prefix string, limit int) (all []string, pages int) {
			for after := ""; ; pages++ {
				p, err := o.List(o.as(who), locktable.List{Prefix: prefix, After: after, Limit: limit})
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range p.Locks {
					all = append(all, l.Name)
				}
				if after = p.Next; after == "" {
					return all, pages + 1
				}
				if !slices.Contains(all, after) {
					t.Errorf("%s is told of %q", who, after)
				}
			}
		}
		for _, c := range []struct {
			who, prefix string
			expected    []string
		}{
			{"root", "", names},
			{"eye", "", names},
			{"a", "", []string{"a/", "a/1", "a/2", "a/3", "a/shared/1"}},
			{"a", "a", []string{"a/", "a/1", "a/2", "a/3", "a/shared/1"}},
			{"a", "a/s", []string{"a/shared/1"}},
			{"a", "b", nil},
			{"b", "", []string{"b/1", "b/2"}},
			{"nobody", "", nil},
		} {
			for limit := 1; limit <= len(names); limit++ {
				got, pages := see(c.who, c.prefix, limit)
				if !slices.Equal(got, c.expected) {
					t.Errorf("%s below %q by %d: %q, expected %q", c.who, c.prefix, limit, got, c.expected)
				}
				if want := max((len(c.expected)+limit-1)/limit, 1); pages != want {
					t.Errorf("%s below %q by %d: %d pages, expected %d", c.who, c.prefix, limit, pages, want)
				}
			}
		}
		// A page token that was made up does not reach beyond what may be read.
		if p, err := o.List(o.as("a"), locktable.List{After: "b"}); err != nil || len(p.Locks) != 0 {
			t.Errorf("after another's name: %v, %v", p, err)
		}
	})
}

// Who may hold a name and not read it learns that it is held, and not by whom.
func TestHolderIsShownToReadersOnly(t *testing.T) {
	inOffice(t, func(o *office) {
		o.acquire("a", "a/shared/1")
		for who, shown := range map[string]bool{"b": false, "a": true, "root": true} {
			for wait := range 2 {
				_, err := o.Acquire(o.as(who), cell.AcquireRequest{Names: []string{"a/shared/1"}, Wait: time.Duration(wait) * time.Second})
				var no *cell.RefusedError
				if !errors.As(err, &no) || no.Reason != locktable.Held || (no.Holder != nil) != shown {
					t.Errorf("%s, waiting %d s: %+v", who, wait, err)
				}
			}
		}
	})
}

// A lease of several names may be broken by who may break all of them.
func TestBreakNeedsRightForEveryName(t *testing.T) {
	inOffice(t, func(o *office) {
		l := o.acquire("root", "a/1", "b/1")
		for who, expected := range map[string]locktable.Reason{"a": locktable.Denied, "b": locktable.Denied} {
			name := who + "/1"
			_, err := o.Break(o.as(who), locktable.Break{Name: name, Token: l.Granted.Token, Reason: "r", Now: true})
			if reasonOf(err) != expected || strings.Contains(err.Error(), "b/1") && who == "a" {
				t.Errorf("%s: %v", who, err)
			}
		}
		broken, err := o.Break(o.as("root"), locktable.Break{Name: "a/1", Token: l.Granted.Token, Reason: "because", Now: true})
		if err != nil || !broken.Ended {
			t.Errorf("root: %v", err)
		}
		if d := o.ledger.last("break"); d.Identity != "root" || d.Reason != "because" || d.Token != uint64(l.Granted.Token) || d.Outcome != "ended" {
			t.Errorf("noted: %+v", d)
		}
	})
}

// A wait ends when the file says that it may not be.
func TestWaitEndsWhenRightIsRemoved(t *testing.T) {
	inOffice(t, func(o *office) {
		o.acquire("root", "a/1")
		ended := make(chan error, 1)
		go func() {
			_, err := o.Acquire(o.as("a"), cell.AcquireRequest{Names: []string{"a/1"}, Wait: time.Hour})
			ended <- err
		}()
		synctest.Wait()
		if n := o.gate.Set(policy(t, "a")); n != 1 {
			t.Errorf("%d were put out", n)
		}
		if err := <-ended; reasonOf(err) != locktable.Unauthenticated {
			t.Errorf("the wait ended with %v", err)
		}
		synctest.Wait()
		if p, err := o.List(o.as("root"), locktable.List{Name: "a/1"}); err != nil || len(p.Locks) != 1 || len(p.Locks[0].Waiters) != 0 {
			t.Errorf("it waits: %+v, %v", p, err)
		}
	})
}

// lesser is a policy under which somebody is there and may do nothing.
func lesser(t testing.TB, who string) *access.Policy {
	t.Helper()
	p, err := access.NewPolicy(access.Entry{
		Identity: access.NewIdentity(who, access.Limits{}), Credentials: []access.Digest{access.DigestOf(secret(who))},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A single try that the store does not answer ends with its right, too, and takes
// nothing with it when the store comes back.
func TestTryEndsWhenRightIsRemoved(t *testing.T) {
	inOffice(t, func(o *office) {
		for _, stays := range []bool{false, true} {
			ended := make(chan error, 1)
			o.disk.SetFull(true)
			go func() {
				_, err := o.Acquire(o.as("a"), cell.AcquireRequest{Names: []string{"a/1"}})
				ended <- err
			}()
			o.pass(time.Second)
			next, expected := policy(t, "a"), locktable.Unauthenticated
			if stays {
				next, expected = lesser(t, "a"), locktable.Unavailable
			}
			if n := o.gate.Set(next); n != 1 {
				t.Errorf("%d were put out", n)
			}
			synctest.Wait()
			select {
			case err := <-ended:
				if reasonOf(err) != expected {
					t.Errorf("the try ended with %v", err)
				}
			default:
				t.Error("the try goes on")
				<-ended
			}
			o.gate.Set(policy(t))
			o.disk.SetFull(false)
			o.pass(time.Second)
			if p, err := o.List(o.as("root"), locktable.List{Name: "a/1"}); err != nil || len(p.Locks) != 0 {
				t.Errorf("it was granted all the same: %+v, %v", p, err)
			}
		}
	})
}

func TestGrantNeedsRequiredAuditLog(t *testing.T) {
	inOffice(t, func(o *office) {
		l := o.acquire("a", "a/1")
		o.ledger.ill = true
		ctx := o.as("a")
		for what, err := range map[string]error{
			"acquire": second(o.Acquire(ctx, cell.AcquireRequest{Names: []string{"a/2"}})),
			"open":    thrice(o.OpenSession(ctx, 0, "")),
			"break":   second(o.Break(ctx, locktable.Break{Name: "a/1", Token: l.Granted.Token, Reason: "r"})),
		} {
			if reasonOf(err) != locktable.Unavailable {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := o.RenewLease(ctx, l.ID, 0); err != nil {
			t.Errorf("renew: %v", err)
		}
		if err := o.Release(ctx, l.ID); err != nil {
			t.Errorf("release: %v", err)
		}
	})
}

func thrice[T, U any](_ T, _ U, err error) error { return err }

func TestOpenGateGivesAdminRights(t *testing.T) {
	inOffice(t, func(o *office) {
		open := access.NewGate(nil)
		c, err := open.From(t.Context())
		if err != nil || !c.Identity().Everywhere(access.Admin) {
			t.Errorf("%v", err)
		}
	})
}

// More names than a lease may have are refused before they wait to be decided, with
// all that they take up.
func TestTooManyNamesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := clock.Bubble()
		idle := cell.New(cell.Options{
			Store: memstore.NewDisk().Store(memstore.Options{Clock: k, Sole: true}), Clock: k, Name: "test", ActiveTTL: 3 * time.Second,
		})
		d := service.New(idle, access.NewGate(nil), nil)
		for n, expected := range map[int]locktable.Reason{2 * bounds.NamesMax: locktable.Unavailable, 2*bounds.NamesMax + 1: locktable.Invalid} {
			if _, err := d.Acquire(t.Context(), cell.AcquireRequest{Names: slices.Repeat([]string{"a"}, n)}); reasonOf(err) != expected {
				t.Errorf("%d names: %v", n, err)
			}
		}
	})
}
