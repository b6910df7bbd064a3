package wire

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Whatever a client says, a message that is within bounds is taken apart without a
// panic: every request becomes a command or is told to be unknown, and no command says
// that a number is finished which an acquire of the message replaces.
func FuzzSort(f *testing.F) {
	for _, m := range []*linkpb.ClientMessage{
		{FinishedBelow: 3, Renewal: 1, Requests: []*linkpb.Request{
			{Number: 9, What: &linkpb.Request_Acquire{Acquire: &linkpb.Acquire{Names: []string{"x"}, Ticket: []byte("t"), Replaces: 2}}},
			{Number: 3, What: &linkpb.Request_Cancel{Cancel: &linkpb.Cancel{Number: 3}}},
			{Number: 4, What: &linkpb.Request_Check{Check: &linkpb.Check{Token: 5}}},
			{Number: 5},
		}},
		{Observe: []string{"x"}, Unobserve: []string{"y"}, TtlNano: -1, Close: true},
	} {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var m linkpb.ClientMessage
		if proto.Unmarshal(raw, &m) != nil || CheckMessage(&m) != nil {
			return
		}
		c, unknown := Sorter{
			Place: func(uint64, []byte) locktable.Place { return locktable.Place{} },
			Admit: func(*linkpb.Request) bool { return true },
		}.Sort(&m)
		if n := len(c.Acquires) + len(c.Releases) + len(c.Cancels) + len(c.Checks) + len(unknown); n != len(m.Requests) {
			t.Errorf("%d requests became %d commands", len(m.Requests), n)
		}
		var s cell.Sender
		heard := s.Urgent(&c)[0].(locktable.Heard)
		for _, a := range s.Acquires(&c) {
			if a.Replaces != 0 && heard.Finished > a.Replaces {
				t.Errorf("finished below %d, and request %d replaces %d", heard.Finished, a.Number, a.Replaces)
			}
		}
	})
}
