package link

import (
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
)

const (
	// answersMax and bytesMax close a message. One may wait for the reader of each
	// stream, beside what is not written yet.
	answersMax = 2048
	bytesMax   = 128 << 10
	// slabMax is how many granted answers a stream keeps room for.
	slabMax = 256
)

// writer turns answers into messages. A message is encoded when Send returns,
// so its parts are used again for the next one.
type writer struct {
	server *Server
	door   *door
	notes  *notes
	stream *cell.Stream

	out  linkpb.ServerMessage
	slab []grantedReply
	used int
	// weighed is what the answers of the message weigh.
	weighed int
}

// grantedReply is a granted answer in one piece: the most frequent one.
type grantedReply struct {
	reply   linkpb.Reply
	what    linkpb.Reply_Granted
	granted linkpb.Granted
	fences  []*linkpb.Fence
	fence   linkpb.Fence
}

// message packs items until it is full, and returns the rest.
func (w *writer) message(items []item) (*linkpb.ServerMessage, []item) {
	m := &w.out
	m.Welcome, m.Closed, m.Renewal, m.TtlNano, m.BeatNano = nil, nil, 0, 0, 0
	clear(m.Replies)
	m.Replies, m.Notices, m.Observed = m.Replies[:0], m.Notices[:0], nil
	w.used, w.weighed = 0, 0
	for i, it := range items {
		if i == answersMax || w.weighed > bytesMax {
			return m, items[i:]
		}
		w.weighed += weight(it.answer)
		switch a := it.answer.(type) {
		case locktable.Attached:
			m.Welcome = w.welcome(a)
		case locktable.Renewed:
			m.Renewal, m.TtlNano = a.Number, int64(a.TTL)
			m.BeatNano = int64(beat(w.server.o.Clock.Now(), a.TTL))
		case locktable.Notice:
			m.Notices = append(m.Notices, notice(a))
		case locktable.Observed:
			m.Observed = append(m.Observed, &linkpb.Observed{
				Name: a.Name, Token: uint64(a.Token), Value: a.Value, Label: a.Label,
				Reason: reasonOf(a.Reason), Message: a.Message,
			})
		case locktable.Closed:
			m.Closed = w.closed(a)
			return m, nil
		default:
			m.Replies = append(m.Replies, w.reply(it.number, a))
		}
	}
	return m, nil
}

func (w *writer) welcome(a locktable.Attached) *linkpb.Welcome {
	info := w.server.cell.Info()
	detail := ""
	if a.RolledBack {
		// Whoever may hold something can say so, and it alarms everybody.
		detail = "told a token that no log here has granted: store_rolled_back"
	}
	w.notes.greeted("attach", "done", detail)
	return &linkpb.Welcome{
		Version:       Version,
		Cell:          info.Cell,
		Epoch:         info.Epoch,
		ActiveTtlNano: int64(info.ActiveTTL),
		Session:       w.stream.Session(),
		TtlNano:       int64(a.TTL),
		Lost:          a.Lost,
		RolledBack:    a.RolledBack,
	}
}

func (w *writer) closed(a locktable.Closed) *linkpb.Closed {
	c := &linkpb.Closed{Reason: reasonOf(a.Reason), Message: a.Message}
	if a.Reason == "" {
		w.notes.greeted("close", "done", a.Message)
	} else {
		w.notes.greeted("detach", string(a.Reason), a.Message)
	}
	if a.Reason == locktable.Unavailable {
		c.ActiveLink = w.server.elsewhere()
	}
	return c
}

// elsewhere is where the active server is, unless that is this one.
func (s *Server) elsewhere() string {
	if info := s.cell.Info(); !info.Active {
		return info.ActiveLink
	}
	return ""
}

func notice(a locktable.Notice) *linkpb.Notice {
	n := &linkpb.Notice{Token: uint64(a.Token), Kind: linkpb.Notice_KIND_BREAKING, Reason: a.Reason}
	if a.Ended {
		n.Kind = linkpb.Notice_KIND_BROKEN
	}
	return n
}

func (w *writer) reply(number uint64, a locktable.Answer) *linkpb.Reply {
	switch a := a.(type) {
	case locktable.Granted:
		return w.granted(number, a)
	case cell.Traced:
		r := w.reply(number, a.Answer)
		r.Trace = traceOf(a.Trace, w.server.o.Clock.Now())
		return r
	case locktable.Waiting:
		return &linkpb.Reply{Number: number, What: &linkpb.Reply_Waiting{Waiting: &linkpb.Waiting{
			Ticket: w.stream.Ticket(number, a.Place),
		}}}
	case locktable.Done:
		return &linkpb.Reply{Number: number, What: done}
	case locktable.Refused:
		if a.Holder != nil && !w.door.caller.Identity().Allow(access.Read, a.Name) {
			a.Holder = nil
		}
		return &linkpb.Reply{Number: number, What: &linkpb.Reply_Refused{Refused: w.server.refused(a, "", 0)}}
	default:
		return &linkpb.Reply{Number: number}
	}
}

var done = &linkpb.Reply_Done{Done: &linkpb.Done{}}

func (w *writer) granted(number uint64, a locktable.Granted) *linkpb.Reply {
	var g *grantedReply
	if w.used < slabMax {
		if w.used == len(w.slab) {
			// The message under way points into the old one, which lives as long
			// as it does.
			w.slab, w.used = make([]grantedReply, min(max(8, 2*w.used), slabMax)), 0
		}
		g = &w.slab[w.used]
		w.used++
	} else {
		g = new(grantedReply)
	}
	g.fences = g.fences[:0]
	for i, n := range a.Grants {
		f := &g.fence
		if i > 0 {
			f = new(linkpb.Fence)
		}
		f.Name, f.Fence, f.Slot = n.Name, uint64(n.Fence), n.Slot
		g.fences = append(g.fences, f)
	}
	g.granted.Token, g.granted.Fences = uint64(a.Token), g.fences
	g.what.Granted = &g.granted
	g.reply.Number, g.reply.What, g.reply.Trace = number, &g.what, nil
	return &g.reply
}

// traceOf counts from when the request had been read, on the clock that nobody
// slews; 0 where the cell noted nothing.
func traceOf(t cell.Trace, sent clock.Reading) *linkpb.Trace {
	since := func(r clock.Reading) int64 { return int64(max(r.Raw-t.Received.Raw, 0)) }
	return &linkpb.Trace{
		QueuedNano: since(t.Queued), TakenNano: since(t.Taken), DecidedNano: since(t.Decided),
		ClosedNano: since(t.Closed), AppendingNano: since(t.Appending), LandedNano: since(t.Landed),
		FinalNano: since(t.Final), SentNano: since(sent),
	}
}

func (s *Server) refused(a locktable.Refused, activeLink string, retry time.Duration) *linkpb.Refused {
	r := &linkpb.Refused{
		Reason: reasonOf(a.Reason), Message: a.Message, Name: a.Name, RetryAfterNano: int64(retry), ActiveLink: activeLink,
	}
	if a.Holder != nil {
		r.Holder = holder(*a.Holder)
	}
	if a.Reason == locktable.Unavailable && activeLink == "" {
		r.ActiveLink = s.elsewhere()
	}
	return r
}

func holder(h locktable.Holder) *linkpb.Holder {
	return &linkpb.Holder{
		Token:         uint64(h.Token),
		Holder:        h.Handle,
		Label:         h.Label,
		SinceUnixNano: h.Since.UnixNano(),
		ExpiresInNano: int64(h.ExpiresIn),
		Shared:        h.Shared,
		Slot:          h.Slot,
		Breaking:      h.Breaking,
		Identity:      h.Identity,
	}
}

func tokenOf(n uint64) guard.Token { return guard.Token(n) }

var reasons = map[locktable.Reason]linkpb.Reason{
	locktable.Invalid:         linkpb.Reason_REASON_INVALID,
	locktable.Unauthenticated: linkpb.Reason_REASON_UNAUTHENTICATED,
	locktable.Denied:          linkpb.Reason_REASON_DENIED,
	locktable.Gone:            linkpb.Reason_REASON_GONE,
	locktable.Held:            linkpb.Reason_REASON_HELD,
	locktable.Conflict:        linkpb.Reason_REASON_CONFLICT,
	locktable.TokenMismatch:   linkpb.Reason_REASON_TOKEN_MISMATCH,
	locktable.Exhausted:       linkpb.Reason_REASON_EXHAUSTED,
	locktable.Unavailable:     linkpb.Reason_REASON_UNAVAILABLE,
	locktable.RolledBack:      linkpb.Reason_REASON_STORE_ROLLED_BACK,
	locktable.Cancelled:       linkpb.Reason_REASON_CANCELLED,
}

func reasonOf(r locktable.Reason) linkpb.Reason { return reasons[r] }
