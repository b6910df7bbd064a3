package storetest

import (
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// The two ways in which an answer can be missing.
var (
	loseAnswer = faulty.Fault{LoseAnswer: true}
	refused    = faulty.Fault{Refuse: faulty.ErrLost}
)

// once gives the next transaction of kind what the fate f, and then is good.
func once(s *Server, what kvlog.What, f faulty.Fault) {
	var mu sync.Mutex
	spent := false
	s.Plan(func(w kvlog.What) faulty.Fault {
		mu.Lock()
		defer mu.Unlock()
		if w != what || spent {
			return faulty.Fault{}
		}
		spent = true
		return f
	})
}

// when calls f before the next transaction of kind what goes out.
func when(s *Server, what kvlog.What, f func()) {
	var run sync.Once
	s.Plan(func(w kvlog.What) faulty.Fault {
		if w == what {
			run.Do(f)
		}
		return faulty.Fault{}
	})
}

// patienceMax bounds how long a test waits for what must come.
const patienceMax = time.Minute

// await returns what comes from ch, or ends the test.
func await[V any](t T, p *Place, what string, ch <-chan V) V {
	t.Helper()
	bound := p.Clock.NewTimer()
	defer bound.Stop()
	bound.Reset(patienceMax)
	select {
	case v := <-ch:
		return v
	case <-bound.C():
	case <-t.Context().Done():
	}
	t.Fatalf("in vain: waiting for %s", what)
	panic("unreachable")
}

// over waits until the writer hears that its tenure is over.
func over(w *writer) {
	w.t.Helper()
	await(w.t, w.p, "the hint that the tenure is over", w.ten.Lost())
}
