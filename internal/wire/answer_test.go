package wire

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
)

// front says the plainest that a front can.
type front struct{}

func (front) Welcome(a locktable.Attached) *linkpb.Welcome {
	return Welcome(a, cell.Info{Cell: "c", Epoch: 4, ActiveTTL: time.Second}, []byte("s"))
}

func (front) Closed(a locktable.Closed) *linkpb.Closed {
	return &linkpb.Closed{Reason: Reason(a.Reason), Message: a.Message}
}

func (front) Refused(a locktable.Refused) *linkpb.Refused { return Refused(a) }

func (front) Ticket(number uint64, p locktable.Place) []byte {
	return []byte{byte(number), byte(p.Epoch), byte(p.Sequence)}
}

func (front) Now() clock.Reading { return clock.Reading{}.Add(70 * time.Millisecond) }

func same(t *testing.T, got, want proto.Message) {
	t.Helper()
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// Every field of an answer reaches the client as what it is, and all that fits goes into
// one message.
func TestPackKeepsEveryField(t *testing.T) {
	holder := locktable.Holder{
		Token: 3, Handle: "h", Label: "l", Since: time.Unix(0, 9), ExpiresIn: 5, Slot: 2, Shared: true, Breaking: true, Identity: "i",
		Grade: locktable.Claimed, RideThrough: 7,
	}
	at := func(d time.Duration) clock.Reading { return clock.Reading{}.Add(d) }
	x := cell.Trace{Received: at(10), Queued: at(11), Taken: at(12), Decided: at(13), Closed: at(14), Appending: at(15), Landed: at(16), Final: at(17)}
	grants := func(names ...string) locktable.Granted {
		g := locktable.Granted{Token: 20, RideThrough: 6}
		for i, name := range names {
			g.Grants = append(g.Grants, locktable.Grant{Name: name, Fence: 11, Slot: uint32(i)})
		}
		return g
	}
	granted := func(number uint64, names ...string) *linkpb.Reply {
		g := &linkpb.Granted{Token: 20, RideThroughNano: 6}
		for i, name := range names {
			g.Fences = append(g.Fences, &linkpb.Fence{Name: name, Fence: 11, Slot: uint32(i)})
		}
		return &linkpb.Reply{Number: number, What: &linkpb.Reply_Granted{Granted: g}}
	}
	traced := granted(3, "z")
	traced.Trace = &linkpb.Trace{
		QueuedNano: 1, TakenNano: 2, DecidedNano: 3, ClosedNano: 4, AppendingNano: 5, LandedNano: 6, FinalNano: 7,
		SentNano: int64(70*time.Millisecond) - 10,
	}
	items := []Item{
		{0, locktable.Attached{TTL: time.Minute, Lost: []uint64{8, 9}, RolledBack: true}},
		{0, locktable.Renewed{Number: 6, TTL: time.Minute}},
		{1, grants("x")},
		{0, locktable.Notice{Token: 8, Reason: "move"}},
		{2, grants("a", "b", "c")},
		{0, locktable.Notice{Token: 9, Ended: true, Reason: "gone"}},
		{3, cell.Traced{Answer: grants("z"), Trace: x}},
		{0, locktable.Observed{Name: "o", Token: 7, Value: []byte("v"), Label: "l"}},
		{0, locktable.Observed{Name: "p", Reason: locktable.Denied, Message: "no"}},
		{4, locktable.Waiting{Place: locktable.Place{Epoch: 1, Sequence: 2}, ClaimOnly: 8}},
		{5, locktable.Done{}},
		{6, locktable.Refused{Reason: locktable.Held, Message: "m", Name: "n", Holder: &holder}},
	}
	want := &linkpb.ServerMessage{
		Welcome: &linkpb.Welcome{
			Version: linkpb.Version, Cell: "c", Epoch: 4, ActiveTtlNano: int64(time.Second), Session: []byte("s"),
			TtlNano: int64(time.Minute), Lost: []uint64{8, 9}, RolledBack: true,
		},
		Renewal: 6, TtlNano: int64(time.Minute), BeatNano: int64(30 * time.Millisecond),
		Notices: []*linkpb.Notice{
			{Token: 8, Kind: linkpb.Notice_KIND_BREAKING, Reason: "move"},
			{Token: 9, Kind: linkpb.Notice_KIND_BROKEN, Reason: "gone"},
		},
		Observed: []*linkpb.Observed{
			{Name: "o", Token: 7, Value: []byte("v"), Label: "l"},
			{Name: "p", Reason: linkpb.Reason_REASON_DENIED, Message: "no"},
		},
		Replies: []*linkpb.Reply{
			granted(1, "x"), granted(2, "a", "b", "c"), traced,
			{Number: 4, What: &linkpb.Reply_Waiting{Waiting: &linkpb.Waiting{Ticket: []byte{4, 1, 2}, ClaimOnlyNano: 8}}},
			{Number: 5, What: &linkpb.Reply_Done{Done: &linkpb.Done{}}},
			{Number: 6, What: &linkpb.Reply_Refused{Refused: &linkpb.Refused{
				Reason: linkpb.Reason_REASON_HELD, Message: "m", Name: "n",
				Holder: &linkpb.Holder{
					Token: 3, Holder: "h", Label: "l", SinceUnixNano: 9, ExpiresInNano: 5, Shared: true, Slot: 2, Breaking: true, Identity: "i",
					Grade: linkpb.Grade_GRADE_CLAIMED, RideThroughNano: 7,
				},
			}}},
		},
	}
	p := Packer{Front: front{}}
	for range 2 { // The second message is written into the room of the first.
		m, rest, weight := p.Pack(items)
		same(t, m, want)
		sum := 0
		for _, it := range items {
			sum += Weight(it.Answer)
		}
		if len(rest) != 0 || weight != sum {
			t.Errorf("%d answers are left, and the others weigh %d, not %d", len(rest), weight, sum)
		}
	}
	m, rest, _ := p.Pack([]Item{{7, locktable.Done{}}, {0, locktable.Closed{Reason: locktable.Gone, Message: "m"}}, {8, locktable.Done{}}})
	same(t, m, &linkpb.ServerMessage{
		Replies: []*linkpb.Reply{{Number: 7, What: &linkpb.Reply_Done{Done: &linkpb.Done{}}}},
		Closed:  &linkpb.Closed{Reason: linkpb.Reason_REASON_GONE, Message: "m"},
	})
	if rest != nil {
		t.Errorf("%d answers come behind the last word", len(rest))
	}
}

// Answers that do not fit into one message are in the next ones: each once, in order, and
// each with its weight in the message that it is in.
func TestPackLosesAndRepeatsNothing(t *testing.T) {
	const all = 3 * answersMax
	long := strings.Repeat("x", 100)
	var items []Item
	for i := range all {
		items = append(items, Item{uint64(i + 1), locktable.Refused{Reason: locktable.Held, Message: long}})
	}
	p := Packer{Front: front{}}
	next := uint64(1)
	for rest := items; len(rest) > 0; {
		var m *linkpb.ServerMessage
		var weight int
		m, rest, weight = p.Pack(rest)
		sum := 0
		for _, r := range m.Replies {
			if r.Number != next {
				t.Fatalf("answer %d where %d was expected", r.Number, next)
			}
			sum += Weight(items[next-1].Answer)
			next++
		}
		if weight != sum || weight > bytesMax+Weight(items[0].Answer) {
			t.Fatalf("a message weighs %d; its answers weigh %d", weight, sum)
		}
	}
	if next != all+1 {
		t.Errorf("%d answers of %d", next-1, all)
	}
}

// What an answer weighs is not less than what of it grows with what its client asks for.
func TestWeightCoversVariableParts(t *testing.T) {
	long := strings.Repeat("x", 1000)
	many := locktable.Granted{Grants: []locktable.Grant{{Name: long}, {Name: long}}}
	for _, x := range []struct {
		what string
		a    locktable.Answer
		want int
	}{
		{"a lease of two names", many, 2000},
		{"one that is followed", cell.Traced{Answer: many}, 2000},
		{"a refusal", locktable.Refused{Message: long, Holder: &locktable.Holder{Label: long, Handle: long}}, 3000},
		{"a greeting", locktable.Attached{Lost: make([]uint64, 1000)}, 8000},
		{"a notice", locktable.Notice{Reason: long}, 1000},
		{"an observation", locktable.Observed{Name: long, Value: make([]byte, 1000), Label: long, Message: long}, 4000},
		{"a word", locktable.Done{}, 1},
	} {
		if got := Weight(x.a); got < x.want || got > x.want+512 {
			t.Errorf("%s weighs %d, want %d or somewhat more", x.what, got, x.want)
		}
	}
}
