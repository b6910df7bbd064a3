package trace

import (
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/hook"
)

// What the client waited and the server does not account for is the wire's; a
// station that the server left out takes no time.
func TestStretchesOfATrace(t *testing.T) {
	at := func(d time.Duration) clock.Reading { return clock.Reading{Boot: d, Raw: d} }
	x := hook.Trace{Asked: at(10), Taken: at(11), Sent: at(13), Received: at(113), Handed: at(120), Server: &linkpb.Trace{
		QueuedNano: 1, TakenNano: 3, DecidedNano: 6, ClosedNano: 10, AppendingNano: 15, LandedNano: 45, FinalNano: 52, SentNano: 60,
	}}
	of := streamLap(7, x)
	expect := []time.Duration{1, 2, 40, 1, 2, 3, 4, 5, 30, 7, 8, 7}
	for i, d := range of.each {
		if d != expect[i] {
			t.Errorf("%s %s took %v, expected %v", streamRooms[i].Room, streamRooms[i].Step, d, expect[i])
		}
	}
	if of.total != 110 || of.token != 7 || len(of.each) != len(expect) {
		t.Errorf("in all %+v", of)
	}
	x.Server.AppendingNano, x.Server.LandedNano = 0, 0
	if each := streamLap(7, x).each; each[7] != 0 || each[8] != 0 || each[9] != 42 {
		t.Errorf("without the store: %v", each)
	}
	p := timesOf([]time.Duration{5, 1, 4, 2, 3})
	if p.P50 != 3 || p.P99 != 5 || p.Max != 5 {
		t.Errorf("of five: %+v", p)
	}
}
