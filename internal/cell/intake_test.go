package cell

import (
	"context"
	"testing"

	"github.com/pawlproject/pawl/internal/locktable"
)

// A wait that ends while its acquire stands in line: an urgent Cancel would come
// before it and find nothing to cancel.
func TestWithdrawnAcquireIsNotDecided(t *testing.T) {
	in, l := newIntake(), &line{}
	gone, stays := newCall(), newCall()
	if refused, open := in.acquire(l, []locktable.Acquire{{Ref: gone}, {Ref: stays}}); len(refused) > 0 || !open {
		t.Fatal("no room in an empty intake")
	}
	if _, taken, _ := in.take(true, nil); len(taken) > 0 {
		t.Fatalf("%d acquires taken while they are held back", len(taken))
	}
	if !in.withdraw(gone) {
		t.Error("what stands in line cannot be withdrawn")
	}
	_, taken, _ := in.take(false, nil)
	if len(taken) != 1 || taken[0].(locktable.Acquire).Ref != locktable.Ref(stays) {
		t.Errorf("taken: %v", taken)
	}
	if in.withdraw(stays) {
		t.Error("what was taken is said to be withdrawn")
	}
	if in.queued != 0 || len(in.lines) != 0 {
		t.Errorf("%d acquires and %d lines are left", in.queued, len(in.lines))
	}
}

// One stream's acquires do not keep another's waiting.
func TestLinesAreServedInTurn(t *testing.T) {
	in, greedy, modest := newIntake(), &line{}, &line{}
	many := make([]locktable.Acquire, lineMax+5)
	for i := range many {
		many[i].Ref = "greedy"
	}
	if refused, _ := in.acquire(greedy, many); len(refused) != 5 {
		t.Errorf("%d refused of 5 too many", len(refused))
	}
	in.acquire(modest, []locktable.Acquire{{Ref: "modest"}})
	_, taken, _ := in.take(false, nil)
	if len(taken) > turnMax {
		t.Errorf("a turn takes %d, more than %d", len(taken), turnMax)
	}
	found := false
	for _, c := range taken {
		found = found || c.(locktable.Acquire).Ref == locktable.Ref("modest")
	}
	if !found {
		t.Error("the modest one waits behind the greedy one")
	}
}

// Urgent commands are never refused; those that a turn leaves make it incomplete.
func TestUrgentIsNeverRefused(t *testing.T) {
	in := newIntake()
	for range 2*turnMax + 1 {
		if !in.add(locktable.Heard{Renewal: 1}) {
			t.Fatal("refused")
		}
	}
	for turn := range 3 {
		urgent, _, complete := in.take(false, nil)
		if want := min(2*turnMax+1-turn*turnMax, turnMax); len(urgent) != want {
			t.Errorf("turn %d: %d taken of %d", turn, len(urgent), want)
		}
		if complete != (turn == 2) {
			t.Errorf("turn %d: complete %v", turn, complete)
		}
	}
	in.close()
	if in.add(locktable.Heard{}) {
		t.Error("a shut intake takes more")
	}
}

// Who sends faster than the cell decides is held up; nobody is refused.
func TestAFloodHoldsUpItsStreams(t *testing.T) {
	in := newIntake()
	if in.relief() != nil {
		t.Fatal("an empty intake is flooded")
	}
	s := &Stream{tenure: &tenure{intake: in}}
	for range floodMin + 1 {
		in.add(locktable.Heard{})
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if s.Breathe(gone) {
		t.Error("a stream that has ended was read again in a flood")
	}
	breathed := make(chan bool)
	go func() { breathed <- s.Breathe(t.Context()) }()
	first := in.relief()
	in.take(false, nil)
	select {
	case <-first:
	default:
		t.Error("the flood is over, and nobody was told")
	}
	if !<-breathed || in.relief() != nil {
		t.Error("the flood is over, and the stream is held up")
	}
	for range floodMin {
		in.add(locktable.Heard{})
	}
	last := in.relief()
	in.close()
	<-last
	if !s.Breathe(t.Context()) {
		t.Error("a stream is held up by a tenure that is over")
	}
}
