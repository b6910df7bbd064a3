package cell_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// answers is a Receiver that hands on what it is told.
type answers chan locktable.Answer

func (a answers) Receive(_ uint64, x locktable.Answer) { a <- x }

// renewed waits for the answer to a renewal and returns when it came.
func (a answers) renewed(t *testing.T) time.Time {
	t.Helper()
	for {
		select {
		case x := <-a:
			if _, ok := x.(locktable.Renewed); ok {
				return time.Now()
			}
		case <-time.After(time.Second):
			t.Fatal("a renewal is not answered")
		}
	}
}

// Renewals of many sessions share a Confirm, and those of a short TTL do not wait for
// others.
func TestRenewalsGather(t *testing.T) {
	const (
		many = 200
		gap  = 50 * time.Millisecond
	)
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		defer s.stop()
		s.up(t)
		attach := func(ttl time.Duration) (*cell.Stream, answers) {
			a := make(answers, 8)
			x := s.Attach(t.Context(), cell.Hello{Generation: 1, TTL: ttl}, a)
			return x, a
		}
		streams, told := make([]*cell.Stream, many), make([]answers, many)
		for i := range many {
			streams[i], told[i] = attach(15 * time.Second)
			defer streams[i].Detach()
		}
		short, quick := attach(2 * time.Second)
		defer short.Detach()
		time.Sleep(500 * time.Millisecond)

		before := s.Stats().Confirms.Load()
		sent := make([]time.Time, many)
		for i := range many {
			sent[i] = time.Now()
			streams[i].Submit(cell.Message{Renewal: 1})
			time.Sleep(gap / 2 / many)
		}
		for i := range many {
			if d := told[i].renewed(t).Sub(sent[i]); d > 2*gap {
				t.Errorf("renewal %d was answered after %v", i, d)
			}
		}
		// One for the renewals, and the turns of the clock.
		if n := s.Stats().Confirms.Load() - before; n > 3 {
			t.Errorf("%d renewals took %d Confirms", many, n)
		}

		at := time.Now()
		short.Submit(cell.Message{Renewal: 1})
		if d := quick.renewed(t).Sub(at); d > gap/5 {
			t.Errorf("the renewal of a TTL of 2s was answered after %v", d)
		}
	})
}
