package endtoend

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/testwait"
)

// C54: the real server is killed the moment that the answer to an acquire has
// arrived, and started again. On the disk the lease is the same one, under the same
// token; nobody else is granted the name, and its holder goes on.
func TestKilledWhenTheAnswerArrives(t *testing.T) {
	s := newServer(t)
	s.up()
	const ttl = 30 * time.Second
	a, b := dial(t, s.link, ttl), dial(t, s.link, ttl)
	var last guard.Token
	for i := range testwait.Reps(10) {
		name := fmt.Sprintf("name/%d", i)
		l := acquire(t, a, name)
		s.signal(syscall.SIGKILL)
		s.end()
		s.up()
		ctx, cancel := context.WithTimeout(t.Context(), bound)
		var held *pawl.HeldError
		if other, err := b.TryAcquire(ctx, name); !errors.As(err, &held) || held.Token != l.Token() {
			t.Fatalf("%s: the next one is told %v, %v; %d was granted", name, other, err, l.Token())
		}
		if err := l.Check(ctx); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if l.Token() <= last {
			t.Errorf("%s: token %d after %d", name, l.Token(), last)
		}
		last = l.Token()
		if i%2 == 0 {
			if err := l.Release(ctx); err != nil {
				t.Errorf("%s: release: %v", name, err)
			}
			s.signal(syscall.SIGKILL)
			s.end()
			s.up()
			next, err := b.Acquire(ctx, name)
			if err != nil || next.Token() <= last {
				t.Fatalf("%s was released: %v, %v", name, next, err)
			}
			last = next.Token()
		}
		cancel()
	}
}
