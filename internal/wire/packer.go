package wire

import (
	"github.com/pawlproject/pawl/api/linkpb"
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

// Front is the server's end of a stream: what it alone can say.
type Front interface {
	// Welcome is the greeting of an attached stream, Closed its last word.
	Welcome(a locktable.Attached) *linkpb.Welcome
	Closed(a locktable.Closed) *linkpb.Closed
	// Refused is a refusal as its caller may see it.
	Refused(a locktable.Refused) *linkpb.Refused
	// Ticket writes a waiter's place for its client to show.
	Ticket(number uint64, p locktable.Place) []byte
	// Now is the time for beats and traces.
	Now() clock.Reading
}

// Packer turns answers into messages. A message is encoded before the next one is
// made, so its parts are used again.
type Packer struct {
	Front Front

	out  linkpb.ServerMessage
	slab []grantedReply
	used int
}

// grantedReply is a granted answer in one piece: the most frequent one.
type grantedReply struct {
	reply   linkpb.Reply
	what    linkpb.Reply_Granted
	granted linkpb.Granted
	fences  []*linkpb.Fence
	fence   linkpb.Fence
}

// Pack packs items until a message is full, and returns the rest. weight is what the
// answers in it weigh.
func (p *Packer) Pack(items []Item) (m *linkpb.ServerMessage, rest []Item, weight int) {
	m = &p.out
	m.Welcome, m.Closed, m.Renewal, m.TtlNano, m.BeatNano = nil, nil, 0, 0, 0
	clear(m.Replies)
	m.Replies, m.Notices, m.Observed = m.Replies[:0], m.Notices[:0], nil
	p.used = 0
	for i, it := range items {
		if i == answersMax || weight > bytesMax {
			return m, items[i:], weight
		}
		weight += Weight(it.Answer)
		switch a := it.Answer.(type) {
		case locktable.Attached:
			m.Welcome = p.Front.Welcome(a)
		case locktable.Renewed:
			m.Renewal, m.TtlNano = a.Number, int64(a.TTL)
			m.BeatNano = int64(Beat(p.Front.Now(), a.TTL))
		case locktable.Notice:
			m.Notices = append(m.Notices, notice(a))
		case locktable.Observed:
			m.Observed = append(m.Observed, &linkpb.Observed{
				Name: a.Name, Token: uint64(a.Token), Value: a.Value, Label: a.Label,
				Reason: Reason(a.Reason), Message: a.Message,
			})
		case locktable.Closed:
			m.Closed = p.Front.Closed(a)
			return m, nil, weight
		default:
			m.Replies = append(m.Replies, p.reply(it.Number, a))
		}
	}
	return m, nil, weight
}

func (p *Packer) reply(number uint64, a locktable.Answer) *linkpb.Reply {
	switch a := a.(type) {
	case locktable.Granted:
		return p.granted(number, a)
	case cell.Traced:
		r := p.reply(number, a.Answer)
		r.Trace = Trace(a.Trace, p.Front.Now())
		return r
	case locktable.Waiting:
		return &linkpb.Reply{Number: number, What: &linkpb.Reply_Waiting{Waiting: &linkpb.Waiting{
			Ticket: p.Front.Ticket(number, a.Place), ClaimOnlyNano: int64(a.ClaimOnly),
		}}}
	case locktable.Done:
		return &linkpb.Reply{Number: number, What: done}
	case locktable.Refused:
		return &linkpb.Reply{Number: number, What: &linkpb.Reply_Refused{Refused: p.Front.Refused(a)}}
	default:
		return &linkpb.Reply{Number: number}
	}
}

var done = &linkpb.Reply_Done{Done: &linkpb.Done{}}

func (p *Packer) granted(number uint64, a locktable.Granted) *linkpb.Reply {
	var g *grantedReply
	if p.used < slabMax {
		if p.used == len(p.slab) {
			// The message under way points into the old one, which lives as long
			// as it does.
			p.slab, p.used = make([]grantedReply, min(max(8, 2*p.used), slabMax)), 0
		}
		g = &p.slab[p.used]
		p.used++
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
	g.granted.Token, g.granted.Fences, g.granted.RideThroughNano = uint64(a.Token), g.fences, int64(a.RideThrough)
	g.what.Granted = &g.granted
	g.reply.Number, g.reply.What, g.reply.Trace = number, &g.what, nil
	return &g.reply
}
