package cell_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// closed waits for the end of a stream, and returns why it is over.
func (a answers) closed(t *testing.T) locktable.Closed {
	t.Helper()
	for {
		select {
		case x := <-a:
			if c, ok := x.(locktable.Closed); ok {
				return c
			}
		case <-time.After(time.Minute):
			t.Fatal("the stream is not told that it is over")
		}
	}
}

// When a tenure ends, by a clean stop or a take-over, every stream that is attached in
// it is told so, and its client looks for the active server.
func TestStreamIsClosedWhenTheTenureEnds(t *testing.T) {
	for what, end := range map[string]func(*testing.T, *memstore.Disk, *server){
		"clean stop": func(_ *testing.T, _ *memstore.Disk, s *server) { s.cancel() },
		"take-over": func(t *testing.T, disk *memstore.Disk, s *server) {
			s.store.Stall()
			b := start(t, disk, "b", false)
			t.Cleanup(b.stop)
			b.up(t)
			s.store.Resume()
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				disk := memstore.NewDisk()
				s := start(t, disk, "a", false)
				defer s.stop()
				s.up(t)
				told, gone := make(answers, 8), make(answers, 8)
				s.Attach(t.Context(), cell.Hello{Generation: 1, TTL: time.Hour}, told)
				left := s.Attach(t.Context(), cell.Hello{Generation: 1, TTL: time.Hour}, gone)
				left.Detach()
				time.Sleep(time.Second)
				end(t, disk, s)
				if c := told.closed(t); c.Reason != locktable.Unavailable {
					t.Errorf("the stream is told %+v", c)
				}
				for len(gone) > 0 {
					if c, over := (<-gone).(locktable.Closed); over {
						t.Errorf("a stream that had ended is told %+v", c)
					}
				}
			})
		})
	}
}

// A clean stop waits for what was sent, and answers it.
func TestCleanStopAnswersWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		s.up(t)
		time.Sleep(time.Second) // the first token of a tenure waits for the clock to move on
		s.store.Stall()
		granted := make(chan error, 1)
		go func() {
			_, err := s.Acquire(context.Background(), cell.AcquireRequest{Names: []string{"n"}, TTL: time.Minute})
			granted <- err
		}()
		synctest.Wait()
		s.cancel()
		time.Sleep(time.Second)
		s.store.Resume()
		s.stop()
		if err := <-granted; err != nil {
			t.Errorf("the acquire was on its way when the server was stopped: %v", err)
		}
	})
}

// A call that waits for a name is answered when the tenure ends: it need not find out
// by itself.
func TestWaitingCallIsAnsweredWhenTheTenureEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		s.up(t)
		s.acquire(t, "n", time.Minute, time.Second)
		waited := make(chan error, 1)
		go func() {
			_, err := s.Acquire(context.Background(), cell.AcquireRequest{Names: []string{"n"}, TTL: time.Minute, Wait: time.Hour})
			waited <- err
		}()
		synctest.Wait()
		s.stop()
		synctest.Wait()
		select {
		case err := <-waited:
			if reasonOf(err) != locktable.Unavailable {
				t.Errorf("the call is answered %v", err)
			}
		default:
			t.Error("the call goes on waiting")
			<-waited
		}
	})
}

// A clean stop tells streams at once that they are over, however long the store takes to
// hear of it, and does not wait for a write that does not land.
func TestCleanStopWithoutAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		s.up(t)
		told := make(answers, 8)
		s.Attach(t.Context(), cell.Hello{Generation: 1, TTL: time.Hour}, told)
		time.Sleep(time.Second)
		s.store.Stall()
		begun := time.Now()
		s.cancel()
		if c := told.closed(t); c.Reason != locktable.Unavailable || time.Since(begun) > 0 {
			t.Errorf("the stream is told %+v after %v", c, time.Since(begun))
		}
		s.stop()
	})
	synctest.Test(t, func(t *testing.T) {
		s := start(t, memstore.NewDisk(), "a", true)
		s.up(t)
		time.Sleep(time.Second)
		s.store.Stall()
		go func() {
			_, _ = s.Acquire(context.Background(), cell.AcquireRequest{Names: []string{"n"}, TTL: time.Minute})
		}()
		synctest.Wait()
		begun := time.Now()
		s.cancel()
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case err := <-s.end:
			s.end <- err
		default:
			t.Errorf("the server goes on %v after its stop", time.Since(begun))
			s.store.Resume()
		}
		s.stop()
	})
}
