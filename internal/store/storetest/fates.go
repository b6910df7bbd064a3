package storetest

import (
	"sync"

	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// The two ways in which an answer can be missing.
var (
	mute    = faulty.Fate{Mute: true}
	refused = faulty.Fate{Refuse: faulty.ErrLost}
)

// once gives the next transaction of kind what the fate f, and then is good.
func once(s *Server, what kvlog.What, f faulty.Fate) {
	var mu sync.Mutex
	spent := false
	s.Plan(func(w kvlog.What) faulty.Fate {
		mu.Lock()
		defer mu.Unlock()
		if w != what || spent {
			return faulty.Fate{}
		}
		spent = true
		return f
	})
}

// when calls f before the next transaction of kind what goes out.
func when(s *Server, what kvlog.What, f func()) {
	var run sync.Once
	s.Plan(func(w kvlog.What) faulty.Fate {
		if w == what {
			run.Do(f)
		}
		return faulty.Fate{}
	})
}
