package cell_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// withLostAnswer has every write land and its answer lost.
func withLostAnswer[T any](T) faulty.Fault { return faulty.Fault{LoseAnswer: true} }

// loseAnswer has an acquire granted whose answer is lost with its server, and
// returns the server that takes over.
func loseAnswer(t *testing.T, open bool, r cell.AcquireRequest) (b *server, session string) {
	t.Helper()
	disk := memstore.NewDisk()
	a := start(t, disk, "a", false)
	a.up(t)
	if open {
		var err error
		if session, _, err = a.OpenSession(t.Context(), r.TTL, ""); err != nil {
			t.Fatal(err)
		}
		r.Session, r.TTL = session, 0
	}
	a.store.Plan(withLostAnswer)
	if _, err := a.Acquire(t.Context(), r); reasonOf(err) != locktable.Unavailable {
		t.Fatalf("the caller is told %v", err)
	}
	a.crash()
	b = start(t, disk, "b", false)
	b.up(t)
	return b, session
}

// I8: a lease with a session of its own, whose answer was lost, ends within one
// TTL, with a request id and without.
func TestLeaseWithLostAnswerEndsWithSession(t *testing.T) {
	for _, id := range []string{"", "one"} {
		synctest.Test(t, func(t *testing.T) {
			const ttl = 10 * time.Second
			b, _ := loseAnswer(t, false, cell.AcquireRequest{Names: []string{"x"}, TTL: ttl, RequestID: id})
			defer b.stop()
			if _, err := b.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"x"}}); reasonOf(err) != locktable.Held {
				t.Fatalf("I8: the grant did not land: %v", err)
			}
			l := b.acquire(t, "x", time.Minute, ttl+time.Second)
			if l.Granted.Waited < ttl/2 {
				t.Errorf("I8: granted after %v", l.Granted.Waited)
			}
		})
	}
}

// I8: several leases share a session, and the answer to one acquire is lost. That lease
// is held as long as the session is renewed. Its caller finds it by its request id and
// releases it. Another request of the session is told which lease it waits for.
func TestLeaseWithLostAnswerIsFoundByRequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		b, session := loseAnswer(t, true, cell.AcquireRequest{Names: []string{"x"}, TTL: ttl, RequestID: "one"})
		defer b.stop()
		for began := time.Now(); time.Since(began) < 5*ttl; time.Sleep(ttl / 6) {
			if _, err := b.RenewSession(t.Context(), session, 0); err != nil {
				t.Fatal(err)
			}
		}
		for _, wait := range []time.Duration{0, time.Second} {
			_, err := b.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"x"}, Session: session, RequestID: "two" + wait.String(), Wait: wait})
			var no *cell.RefusedError
			if !errors.As(err, &no) || no.Reason != locktable.Held || !no.OwnSession || !strings.Contains(no.Message, "request id") {
				t.Errorf("within %v, in the session itself: %+v", wait, err)
			}
			_, err = b.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"x"}, Wait: wait})
			if !errors.As(err, &no) || no.Reason != locktable.Held || no.OwnSession {
				t.Errorf("within %v, in another session: %+v", wait, err)
			}
		}
		l, err := b.Acquire(t.Context(), cell.AcquireRequest{Names: []string{"x"}, Session: session, RequestID: "one"})
		if err != nil {
			t.Fatalf("I8: the repeat: %v", err)
		}
		if err := b.Release(t.Context(), l.ID); err != nil {
			t.Errorf("I8: release: %v", err)
		}
		next := b.acquire(t, "x", ttl, 0)
		if next.Granted.Token <= l.Granted.Token {
			t.Errorf("token %d after %d", next.Granted.Token, l.Granted.Token)
		}
	})
}

// Without a request id the lease is held as long as the session is renewed. What asks
// for its name in that session is told so, and the token by which it is broken.
func TestLeaseWithLostAnswerAndNoRequestIDCanBeBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, session := loseAnswer(t, true, cell.AcquireRequest{Names: []string{"x"}, TTL: time.Minute})
		defer b.stop()
		again := cell.AcquireRequest{Names: []string{"x"}, Session: session}
		_, err := b.Acquire(t.Context(), again)
		var no *cell.RefusedError
		if !errors.As(err, &no) || no.Reason != locktable.Held || !no.OwnSession {
			t.Fatalf("I8: in the session itself: %+v", err)
		}
		if _, err := b.Break(t.Context(), locktable.Break{Name: "x", Token: no.Holder.Token, Now: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Acquire(t.Context(), again); err != nil {
			t.Errorf("I8: after the break: %v", err)
		}
	})
}
