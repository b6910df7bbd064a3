package rest

import (
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
)

// RoomBody is how long an acquire was in one room of the server.
type RoomBody struct {
	Room string   `json:"room"`
	Step string   `json:"step"`
	Took Duration `json:"took"`
}

// roomsOf tells where a request was, from when it had been read until its answer
// was written. What the cell noted nothing of took no time.
func roomsOf(t *cell.Trace, now clock.Reading) []RoomBody {
	ends := []struct {
		room, step string
		at         clock.Reading
	}{
		{"rest", "receive", t.Queued},
		{"intake", "queue", t.Taken},
		{"locktable", "decide", t.Decided},
		{"batch", "close", t.Closed},
		{"store", "begin", t.Appending},
		{"store", "append", t.Landed},
		{"cell", "settle", t.Final},
		{"rest", "answer", now},
	}
	rooms := make([]RoomBody, 0, len(ends))
	before := t.Received.Raw
	for _, e := range ends {
		at := max(e.at.Raw, before)
		rooms = append(rooms, RoomBody{e.room, e.step, Duration(at - before)})
		before = at
	}
	return rooms
}

// traced has the cell follow a request, which has been read just now.
func (s *handlers) traced(r *cell.AcquireRequest) {
	r.Traced, r.Received = true, s.clock.Now()
}
