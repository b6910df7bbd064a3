package tables

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlproject/pawl/internal/locktable"
)

// mTTL is a session's time as the model has it.
type mTTL struct {
	// logged is what the log has, left what it has of a silent session's time.
	logged, left time.Duration
	silent       bool
	// want is what a renewal is good for, until the end of all that was promised.
	want, until time.Duration
	// above is the end of what was promised above want.
	above time.Duration
	// asked is the renewal that asked for a TTL last.
	asked uint64
	// vague: a connection has waited for it, which renews it unseen.
	vague bool
}

// renewed: the session's client is promised what it wants, ttl from now
// on when that is not 0.
func (s *mTTL) renewed(now, ttl time.Duration) {
	if ttl != 0 {
		if ttl < s.want {
			s.above = s.until
		}
		s.want = ttl
	}
	s.until = max(s.until, now+s.want)
}

// basis is what a take-over gives.
func (s *mTTL) basis() time.Duration {
	if s.silent {
		return s.left
	}
	return s.logged
}

// gives says when a take-over would give less than was promised.
func (s *mTTL) gives(now time.Duration) error {
	if left := s.until - now; s.basis() < left {
		return fmt.Errorf("I5: a take-over would give %v, and %v were promised", s.basis(), left)
	}
	return nil
}

func (s *mTTL) takenOver(now time.Duration) {
	s.want, s.until, s.asked = s.logged, now+s.basis(), 0
}

// late says what the log should have by now.
func (s *mTTL) late(now time.Duration) error {
	switch {
	case s.want > s.logged:
		return fmt.Errorf("%v are promised, and %v logged", s.want, s.logged)
	case !s.vague && s.want < s.logged && s.above <= now && s.until > now:
		return fmt.Errorf("%v are logged, and nothing above %v is promised since %v", s.logged, s.want, now-s.above)
	}
	return nil
}

// drawTTL draws a TTL to ask for, often none.
func drawTTL(t *rapid.T) time.Duration {
	if rapid.IntRange(0, 2).Draw(t, "asks") > 0 {
		return 0
	}
	return time.Duration(rapid.IntRange(1, 8).Draw(t, "ttl")) * time.Second
}

// answered holds what a renewal is said to be good for against the model.
func (h *history) answered(t *rapid.T, d locktable.Decided, name string, to locktable.Ref) {
	s := h.m.sessions[name]
	for _, r := range d.Replies {
		var ttl time.Duration
		switch a := r.Answer.(type) {
		case locktable.Renewed:
			ttl = a.TTL
		case locktable.Attached:
			ttl = a.TTL
		}
		if r.To == to && ttl != 0 && ttl != s.want {
			t.Fatalf("a renewal of %s is said to be good for %v; it asked for %v", name, ttl, s.want)
		}
	}
}
