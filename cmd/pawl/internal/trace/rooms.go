package trace

import (
	"slices"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
)

// Room is a part of the way, a step there, and what happens in it.
type Room struct{ Room, Step, What string }

// serverRooms are those of the server, in the order of the request's way. The
// front's are called after it.
var serverRooms = []Room{
	{"link", "receive", "the message is taken apart"},
	{"intake", "queue", "waits for the cell's turn"},
	{"locktable", "decide", "decided; a held name waits here"},
	{"batch", "close", "waits for a place among the batches under way"},
	{"store", "begin", "waits to be sent"},
	{"store", "append", "the store makes it durable"},
	{"cell", "settle", "final when all before it is"},
	{"link", "answer", "gathered into a message"},
}

// streamRooms are the rooms of an acquire over a stream; the wire is told once
// for both ways.
var streamRooms = slices.Concat([]Room{
	{"client", "loop", "the caller asked; the client's loop takes it"},
	{"client", "send", "gathered into a message"},
	{"wire", "network", "both ways, and the systems at its ends"},
}, serverRooms, []Room{{"client", "hand over", "received; the caller has its lease"}})

// Rooms are the rooms of an acquire, in the order of its way.
func Rooms(w Way) []Room {
	switch w {
	case ByCalls:
		return callRooms("link", "gRPC")
	case OverHTTP:
		return callRooms("rest", "HTTP")
	}
	return streamRooms
}

// callRooms are those of an acquire by a call.
func callRooms(front, protocol string) []Room {
	server := slices.Clone(serverRooms)
	server[0] = Room{front, "receive", "who asks, and may it"}
	server[len(server)-1] = Room{front, "answer", "written down"}
	return slices.Concat([]Room{
		{"client", "ask", "the request is put together"},
		{"wire", "network", "both ways, with " + protocol + " and the systems at its ends"},
	}, server, []Room{{"client", "hand over", "received; the caller has its lease"}})
}

// serverStretches are the times of the rooms of the server. One that it left out
// is empty.
func serverStretches(s *linkpb.Trace) (each []time.Duration) {
	var before int64
	for _, at := range []int64{
		s.GetQueuedNano(), s.GetTakenNano(), s.GetDecidedNano(), s.GetClosedNano(), s.GetAppendingNano(),
		s.GetLandedNano(), s.GetFinalNano(), s.GetSentNano(),
	} {
		at = max(at, before)
		each = append(each, time.Duration(at-before))
		before = at
	}
	return each
}

// lapOf puts a lap together. out are the readings of the client's clock from when it
// was asked until it had sent, server the rooms of the server; came is when the answer
// was there, had when the caller had it.
func lapOf(token guard.Token, out []clock.Reading, server []time.Duration, came, had clock.Reading) lap {
	x := lap{token: token, total: had.Raw - out[0].Raw}
	for i, at := range out[1:] {
		x.each = append(x.each, at.Raw-out[i].Raw)
	}
	wire := came.Raw - out[len(out)-1].Raw
	for _, d := range server {
		wire -= d
	}
	x.each = append(append(x.each, max(wire, 0)), server...)
	x.each = append(x.each, had.Raw-came.Raw)
	return x
}
