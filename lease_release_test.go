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

// The context of a lease ends before its release is sent: the holder stops before
// anybody else can be granted the name, however long the answer takes.
func TestContextEndsBeforeReleaseIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		l, err := path.Dial(t, pawl.Options{TTL: 10 * time.Second}).Acquire(t.Context(), "orders/7")
		if err != nil {
			t.Fatal(err)
		}
		path.Cut()
		released := make(chan error, 1)
		go func() { released <- l.Release(t.Context()) }()
		synctest.Wait()
		select {
		case err := <-released:
			t.Fatalf("the release returned without an answer: %v", err)
		case <-l.Context().Done():
			if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrReleased) {
				t.Errorf("the context ended by %v", cause)
			}
		default:
			t.Error("the context goes on while the release is on its way")
		}
		path.Heal()
		if err := <-released; err != nil {
			t.Errorf("the release, once the server can be reached: %v", err)
		}
		if held, ok := s.Holder(t, "orders/7"); ok {
			t.Errorf("token %d holds the name", held)
		}
	})
}
