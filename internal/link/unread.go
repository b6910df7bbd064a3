package link

import (
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/internal/clock"
)

// unreadLogGap bounds how often it is logged that an identity does not read its answers:
// once per gap for each identity.
const unreadLogGap = time.Minute

// unreadBudget counts the bytes of answers that wait for one identity's clients, or are
// being sent to them. A nil budget counts nothing.
type unreadBudget struct {
	identity string
	bytes    atomic.Int64

	// cutting: streams were cut since the episode began. The episode ends when half of what
	// may wait does. It is written under mu, so that no end passes its beginning.
	cutting atomic.Bool
	mu      sync.Mutex
	// cut counts the streams that were, of which the log has not been told how many.
	cut int
	// logged: this episode was logged. lastLogged: when any episode was last logged, if everLogged.
	logged, everLogged bool
	lastLogged         clock.Reading
}

func (s *Server) unreadOf(identity string) *unreadBudget {
	if d, known := s.unreads.Load(identity); known {
		return d.(*unreadBudget)
	}
	d, _ := s.unreads.LoadOrStore(identity, &unreadBudget{identity: identity})
	return d.(*unreadBudget)
}

func (d *unreadBudget) add(n int) {
	if d != nil {
		d.bytes.Add(int64(n))
	}
}

// most is how much may wait.
func (d *unreadBudget) most() int64 {
	if d.identity == "" {
		return AllUnreadMax
	}
	return UnreadMax
}

// over reports whether the budget is exceeded.
func (d *unreadBudget) over() bool { return d != nil && d.bytes.Load() > d.most() }

// full reports whether no client of the identity may be sent more. One
// anonymous client must not keep the others from being answered.
func (d *unreadBudget) full() bool { return d != nil && d.identity != "" && d.over() }

// disconnectUnread ends a stream because its client, or all clients of its identity
// together, leave too many bytes unread. It logs the beginning of such an episode.
// alone says that this client caused it.
func (s *Server) disconnectUnread(d *unreadBudget, alone bool) error {
	if n, tell := d.episodeBegins(s.o.Clock.Now()); tell {
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

// episodeBegins counts a stream that is cut, and says whether to log it. cut
// is the number of earlier cuts that were not logged.
func (d *unreadBudget) episodeBegins(now clock.Reading) (cut int, tell bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutting.Store(true)
	if d.logged || d.everLogged && now.Longer(d.lastLogged) < unreadLogGap {
		d.cut++
		return 0, false
	}
	cut, d.cut = d.cut, 1
	d.logged, d.everLogged, d.lastLogged = true, true, now
	return cut, true
}

// logIfRead logs that the unread answers were read, or have gone with their streams.
func (s *Server) logIfRead(d *unreadBudget) {
	if d == nil || !d.cutting.Load() || d.bytes.Load() > d.most()/2 {
		return
	}
	if n, tell := d.episodeEnds(); tell {
		s.o.Logger.Info("answers are read again, or their streams have gone", "identity", d.identity, "disconnected", n)
	}
}

// episodeEnds ends an episode, and says whether to log it, as was done at its
// beginning, and how many streams were cut.
func (d *unreadBudget) episodeEnds() (cut int, tell bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutting.Store(false)
	if !d.logged {
		return 0, false
	}
	cut, d.cut, d.logged = d.cut, 0, false
	return cut, true
}
