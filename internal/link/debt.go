package link

import (
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/internal/clock"
)

// spellGap bounds how often the log is told that somebody's answers are not read:
// once in so long for each identity.
const spellGap = time.Minute

// debt is the bytes of answers that wait for the readers of one identity, or are
// being sent to them. A nil debt is none.
type debt struct {
	identity string
	bytes    atomic.Int64

	// cutting: streams were cut since the spell began, which ends when half of what
	// may wait does. It is written under mu, so that no end passes its beginning.
	cutting atomic.Bool
	mu      sync.Mutex
	// cut counts the streams that were, of which the log has not been told how many.
	cut int
	// told: the log was told of this spell; ever: of one at all, the last time at last.
	told, ever bool
	last       clock.Reading
}

func (s *Server) debtOf(identity string) *debt {
	if d, known := s.debts.Load(identity); known {
		return d.(*debt)
	}
	d, _ := s.debts.LoadOrStore(identity, &debt{identity: identity})
	return d.(*debt)
}

func (d *debt) add(n int) {
	if d != nil {
		d.bytes.Add(int64(n))
	}
}

// most is how much may wait.
func (d *debt) most() int64 {
	if d.identity == "" {
		return AllUnreadMax
	}
	return UnreadMax
}

// over reports whether more waits than may.
func (d *debt) over() bool { return d != nil && d.bytes.Load() > d.most() }

// pressing reports whether no further message may be written to anybody. Of those
// who have no name one must not keep the others from being answered.
func (d *debt) pressing() bool { return d != nil && d.identity != "" && d.over() }

// unread ends a stream whose client does not read, or one of an identity whose
// clients together do not, and tells the log when that begins. alone: it was this
// client.
func (s *Server) unread(d *debt, alone bool) error {
	if n, tell := d.begins(s.o.Clock.Now()); tell {
		s.o.Logger.Warn("clients that do not read their answers are disconnected",
			"identity", d.identity, "unread_bytes", d.bytes.Load(), "disconnected_before", n)
	}
	switch {
	case alone:
		return status.Errorf(codes.ResourceExhausted, "more than %d bytes of answers were waiting to be read", OutboxMax)
	case d.identity == "":
		return status.Errorf(codes.ResourceExhausted,
			"more than %d bytes of answers were waiting to be read by all clients together", AllUnreadMax)
	}
	return status.Errorf(codes.ResourceExhausted,
		"more than %d bytes of answers were waiting to be read on all streams of this identity", UnreadMax)
}

// begins counts a stream that is cut, and says whether the log shall be told. cut
// is how many were, before, that it was not told of.
func (d *debt) begins(now clock.Reading) (cut int, tell bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutting.Store(true)
	if d.told || d.ever && now.Longer(d.last) < spellGap {
		d.cut++
		return 0, false
	}
	cut, d.cut = d.cut, 1
	d.told, d.ever, d.last = true, true, now
	return cut, true
}

// eased tells the log that what waits has been read, or has gone with its streams.
func (s *Server) eased(d *debt) {
	if d == nil || !d.cutting.Load() || d.bytes.Load() > d.most()/2 {
		return
	}
	if n, tell := d.ends(); tell {
		s.o.Logger.Info("answers are read again, or their streams have gone", "identity", d.identity, "disconnected", n)
	}
}

// ends ends a spell, and says whether the log shall be told, as it was of its
// beginning, and how many streams were cut.
func (d *debt) ends() (cut int, tell bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutting.Store(false)
	if !d.told {
		return 0, false
	}
	cut, d.cut, d.told = d.cut, 0, false
	return cut, true
}
