package link

import (
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// unreadBudget counts the bytes of answers that wait for one identity's clients, or are
// being sent to them. A nil budget counts nothing.
type unreadBudget struct {
	identity string
	bytes    atomic.Int64
	// disconnects limits the log line about streams that were ended.
	disconnects logLimit
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

// disconnectUnread ends a stream whose client does not read, or one of an identity whose
// clients together do not, and logs it. alone: it was this client.
func (s *Server) disconnectUnread(d *unreadBudget, alone bool) error {
	if n, ok := d.disconnects.allow(s.o.Clock.Now()); ok {
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
