package sdk

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/testwait"
)

// On the system's clock and timers the deadline fires with no server left, and
// what waits for one goes on waiting.
func TestDeadlineOnSystemClock(t *testing.T) {
	address, _, stop := tcpServer(t, nil)
	c, err := pawl.Dial(t.Context(), []string{address}, pawl.Options{TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Acquire(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, time.Minute, "a fresh renewal", func() bool {
		return l.Remaining() > 800*time.Millisecond && l.Context().Err() == nil
	})
	if l.Remaining() > time.Second {
		t.Errorf("%v remain of one second", l.Remaining())
	}
	stop()
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 1)
	go func() {
		_, err := c.Acquire(ctx, "y")
		waited <- err
	}()
	testwait.Until(t, time.Minute, "the deadline", func() bool { return l.Context().Err() != nil })
	if cause := context.Cause(l.Context()); !errors.Is(cause, pawl.ErrLost) || l.Remaining() != 0 {
		t.Errorf("cause %v, %v remain", cause, l.Remaining())
	}
	select {
	case err := <-waited:
		t.Errorf("the waiter gave up: %v", err)
	default:
	}
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) || !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("the waiter: %v", err)
	}
	// The server was not told that the session is given up, and can have kept it.
	if err := c.Close(); !errors.Is(err, pawl.ErrUnavailable) {
		t.Errorf("close, while no server is there: %v", err)
	}
}
