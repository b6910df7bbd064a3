package pawl_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/pawltest"
)

// C51: thirty sessions are granted in the order of their arrival, whatever their
// ids, and one at a time.
func TestGrantsInOrderOfArrival(t *testing.T) {
	const sessions, rounds = 30, 5
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		first := s.Dial(t, pawl.Options{TTL: ttl})
		var all []*pawl.Client
		for range sessions {
			all = append(all, s.Dial(t, pawl.Options{TTL: ttl}))
		}
		for round := range rounds {
			l := take(t, first, "x")
			var queue []<-chan *pawl.Lease
			for i := range all {
				queue = append(queue, later(t, all[(i*7+round)%sessions], "x"))
				synctest.Wait()
			}
			last := l.Token()
			for i, turn := range queue {
				for _, early := range queue[i:] {
					if len(early) > 0 {
						t.Fatalf("round %d: somebody is granted while place %d is not free", round, i)
					}
				}
				if err := l.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
				if l = <-turn; l.Token() <= last {
					t.Fatalf("token %d after %d", l.Token(), last)
				}
				last = l.Token()
			}
			let(t, l)
		}
	})
}

// C19: hundreds of holders end together, by silence. One that lives is not lost
// over it, and those who wait are granted in time.
func TestManySessionsExpireTogether(t *testing.T) {
	const dead, waiting = 300, 20
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		path := s.NewPath()
		alive := s.Dial(t, pawl.Options{TTL: ttl})
		own := take(t, alive, "own")
		for i := range dead {
			take(t, path.Dial(t, pawl.Options{TTL: 5 * time.Second}), fmt.Sprintf("name/%d", i))
		}
		var queue sync.WaitGroup
		var late sync.Map
		path.Cut()
		cut := time.Now()
		for i := range waiting {
			queue.Go(func() {
				l, err := alive.Acquire(t.Context(), fmt.Sprintf("name/%d", i*dead/waiting))
				if err != nil {
					t.Error(err)
					return
				}
				late.Store(l.Token(), time.Since(cut))
			})
		}
		queue.Wait()
		late.Range(func(token, after any) bool {
			if d := after.(time.Duration); d < 3*time.Second || d > 7*time.Second {
				t.Errorf("token %v was granted %v after the cut; the TTL was 5 s", token, d)
			}
			return true
		})
		if err := own.Check(t.Context()); err != nil {
			t.Errorf("the one that lives: %v", err)
		}
	})
}
