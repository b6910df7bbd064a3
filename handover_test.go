package pawl_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/pawltest"
)

func TestAcquireAndHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		a := s.Dial(t, pawl.Options{TTL: 2 * time.Second, Label: "a"})
		b := s.Dial(t, pawl.Options{TTL: 2 * time.Second, Label: "b"})
		ctx := t.Context()

		l, err := a.Acquire(ctx, "orders/7")
		if err != nil {
			t.Fatal(err)
		}
		if held, ok := s.Holder(t, "orders/7"); !ok || held != l.Token() || l.Token() == 0 {
			t.Fatalf("the server says %v %v, the lease %v", held, ok, l.Token())
		}
		_, err = b.TryAcquire(ctx, "orders/7")
		var h *pawl.HeldError
		if !errors.As(err, &h) || !errors.Is(err, pawl.ErrHeld) || h.Label != "a" || h.Token != l.Token() {
			t.Fatalf("a held name: %v", err)
		}
		got := make(chan *pawl.Lease)
		go func() {
			l, err := b.Acquire(ctx, "orders/7")
			if err != nil {
				t.Error(err)
			}
			got <- l
		}()
		time.Sleep(10 * time.Second)
		if err := l.Context().Err(); err != nil {
			t.Fatalf("the lease did not last: %v", context.Cause(l.Context()))
		}
		if n := s.Waiting(t, "orders/7"); n != 1 {
			t.Fatalf("%d wait", n)
		}
		if err := l.Check(ctx); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			t.Fatalf("released twice: %v", err)
		}
		next := <-got
		if next.Token() <= l.Token() {
			t.Fatalf("token %d after %d", next.Token(), l.Token())
		}
		if err := next.Release(ctx); err != nil {
			t.Fatal(err)
		}
	})
}
