package locktable

import (
	"testing"

	"github.com/pawlproject/pawl/internal/bounds"
)

// A cancel does not wait behind acquires. So a request that waited, is repeated on a
// new stream and is then given up may be cancelled before the repeat arrives. The
// repeat must not enter the queue again and be granted to no one.
func TestCancelOvertakesRepeatedRequest(t *testing.T) {
	table, now, d := New(bounds.DefaultLimits), Now{}, &Decided{}
	table.Found("c", make([]byte, 32), d)
	table.Open(1, now.Wall.AddDate(2026, 0, 0), 0, d)
	table.Decide(now, Attach{Ref: "s1", New: ID{1}, TTL: bounds.TTLDefault, Generation: 1}, d)
	table.Decide(now, Attach{Ref: "o1", New: ID{2}, TTL: bounds.TTLDefault, Generation: 1}, d)
	now.Wall = now.Wall.AddDate(2027, 0, 0)
	table.Decide(now, Acquire{Ref: "o1", Session: ID{2}, Generation: 1, Number: 1, Names: []string{"n"}}, d)
	ask := Acquire{Ref: "s1", Session: ID{1}, Generation: 1, Number: 1, Names: []string{"n"}}
	table.Decide(now, ask, d)

	table.Decide(now, Detach{Ref: "s1", Session: ID{1}, Generation: 1}, d)
	table.Decide(now, Attach{Ref: "s2", Session: ID{1}, Generation: 2, Wanted: []uint64{1}}, d)
	table.Decide(now, Cancel{Session: ID{1}, Generation: 2, Number: 1}, d)
	ask.Ref, ask.Generation = "s2", 2
	table.Decide(now, ask, d)

	last := d.Replies[len(d.Replies)-1]
	if no, refused := last.Answer.(Refused); !refused || no.Reason != Cancelled {
		t.Errorf("the request that was given up is answered %+v", last)
	}
	if n := table.Counts().Waiters; n != 0 {
		t.Errorf("%d waiters are left", n)
	}
}
