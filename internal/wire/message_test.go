package wire

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Every field of a greeting reaches the cell as what it is.
func TestHelloKeepsEveryField(t *testing.T) {
	h := &linkpb.Hello{
		Version: linkpb.Version, Cell: "c", HighestToken: 7, Session: []byte("0123456789abcdef"), Generation: 3,
		TtlNano: int64(time.Minute), Label: "label", Held: []uint64{5, 6}, Wanted: []uint64{1, 2}, NextNumber: 9,
	}
	want := cell.Hello{
		Session: h.Session, Generation: 3, TTL: time.Minute, Label: "label", Held: h.Held, Wanted: h.Wanted, Next: 9,
		Cell: "c", Highest: 7,
	}
	if got := Hello(h, true); !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v", got)
	}
	want.Cell, want.Highest = "", 0
	if got := Hello(h, false); !reflect.DeepEqual(got, want) {
		t.Errorf("of one who tells of no token: %+v", got)
	}
}

// Every field of a message reaches the cell as what it is. A ticket is read for the
// number that it was given to.
func TestSortKeepsEveryField(t *testing.T) {
	acquire := func(number uint64, a *linkpb.Acquire) *linkpb.Request {
		return &linkpb.Request{Number: number, What: &linkpb.Request_Acquire{Acquire: a}}
	}
	traced := acquire(4, &linkpb.Acquire{Names: []string{"z"}})
	traced.Trace = true
	m := &linkpb.ClientMessage{
		FinishedBelow: 2, Renewal: 8, TtlNano: int64(time.Minute), Observe: []string{"o"}, Unobserve: []string{"u"}, Close: true,
		Requests: []*linkpb.Request{
			acquire(2, &linkpb.Acquire{
				Names: []string{"x", "y"}, Shared: true, Label: "label", Value: []byte("value"), LockDelayNano: 5, Try: true,
			}),
			acquire(3, &linkpb.Acquire{Names: []string{"s"}, Slots: 1, Ticket: []byte("t3")}),
			traced,
			acquire(5, &linkpb.Acquire{Names: []string{"r"}, Claims: true, RideThroughNano: 6}),
			acquire(15, &linkpb.Acquire{Names: []string{"w"}, Ticket: []byte("t5"), Replaces: 5}),
			{Number: 6, What: &linkpb.Request_Release{Release: &linkpb.Release{Token: 60}}},
			{Number: 7, What: &linkpb.Request_Cancel{Cancel: &linkpb.Cancel{Number: 1}}},
			{Number: 8, What: &linkpb.Request_Check{Check: &linkpb.Check{Token: 80}}},
			{Number: 9},
			acquire(10, &linkpb.Acquire{Names: []string{"denied"}}),
		},
	}
	tickets := map[uint64]string{}
	sorter := Sorter{
		Place: func(number uint64, ticket []byte) locktable.Place {
			tickets[number] = string(ticket)
			return locktable.Place{Epoch: 1, Sequence: number}
		},
		Admit: func(r *linkpb.Request) bool { return r.Number != 10 },
	}
	want := cell.Message{
		Renewal: 8, Finished: 2, TTL: time.Minute, Observe: []string{"o"}, Unobserve: []string{"u"}, Close: true, Traced: []uint64{4},
		Acquires: []locktable.Acquire{
			{
				Number: 2, Names: []string{"x", "y"}, Mode: locktable.Shared, Label: "label", Value: []byte("value"), LockDelay: 5, Try: true,
			},
			{Number: 3, Names: []string{"s"}, Mode: locktable.Slots, Slots: 1, Ticket: locktable.Place{Epoch: 1, Sequence: 3}},
			{Number: 4, Names: []string{"z"}, Mode: locktable.Exclusive},
			{Number: 5, Names: []string{"r"}, Mode: locktable.Exclusive, Claims: true, RideThrough: 6},
			{Number: 15, Names: []string{"w"}, Mode: locktable.Exclusive, Ticket: locktable.Place{Epoch: 1, Sequence: 5}, Replaces: 5},
		},
		Releases: []locktable.Release{{Number: 6, Token: 60}},
		Cancels:  []locktable.Cancel{{Number: 1}},
		Checks:   []locktable.Check{{Number: 8, Token: 80}},
	}
	got, unknown := sorter.Sort(m)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v\nwant %+v", got, want)
	}
	if !slices.Equal(unknown, []uint64{9}) {
		t.Errorf("requests %v are not known", unknown)
	}
	if len(tickets) != 2 || tickets[3] != "t3" || tickets[5] != "t5" {
		t.Errorf("tickets are read for %v", tickets)
	}
}

// Shared slots are handed on as what they are, for the table to refuse.
func TestSharedSlotsArePassedToTable(t *testing.T) {
	if m := Mode(true, 3); m != locktable.Shared {
		t.Errorf("shared slots are of mode %v, and the table would grant them", m)
	}
}

// A request of any kind without a number cannot be answered.
func TestRequestWithoutNumberIsRefused(t *testing.T) {
	for _, r := range []*linkpb.Request{
		{What: &linkpb.Request_Acquire{}},
		{What: &linkpb.Request_Release{}},
		{What: &linkpb.Request_Cancel{}},
		{What: &linkpb.Request_Check{}},
		{},
	} {
		if CheckMessage(&linkpb.ClientMessage{Requests: []*linkpb.Request{r}}) == nil {
			t.Errorf("%T is taken", r.What)
		}
		r.Number = 1
		if err := CheckMessage(&linkpb.ClientMessage{Requests: []*linkpb.Request{r}}); err != nil {
			t.Errorf("%T with a number: %v", r.What, err)
		}
	}
}
