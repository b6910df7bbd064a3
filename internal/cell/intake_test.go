package cell

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pawlproject/pawl/internal/locktable"
)

// A wait that ends while its acquire stands in line: an urgent Cancel would come
// before it and find nothing to cancel.
func TestWithdrawnAcquireIsNotDecided(t *testing.T) {
	in, l := newIntake(), &streamQueue{}
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
	if in.queued != 0 || len(in.ring) != 0 {
		t.Errorf("%d acquires and %d lines are left", in.queued, len(in.ring))
	}
}

// One stream's acquires do not keep another's waiting.
func TestStreamsAreServedRoundRobin(t *testing.T) {
	in, greedy, modest := newIntake(), &streamQueue{}, &streamQueue{}
	many := make([]locktable.Acquire, streamQueueMax+5)
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

// What a turn leaves brings another one, unless it waits for something else.
func TestIncompleteTurnSchedulesNext(t *testing.T) {
	woken := func(in *intake) bool {
		select {
		case <-in.ready:
			return true
		default:
			return false
		}
	}
	urgent, acquires := newIntake(), newIntake()
	for range turnMax + 1 {
		urgent.add(locktable.Heard{})
	}
	acquires.acquire(&streamQueue{}, make([]locktable.Acquire, turnMax+1))
	for what, in := range map[string]*intake{"urgent commands": urgent, "acquires": acquires} {
		woken(in)
		in.take(false, nil)
		if !woken(in) {
			t.Errorf("%s are left, and nothing brings the next turn", what)
		}
		in.take(false, nil)
		if woken(in) {
			t.Errorf("no %s are left, and there is another turn", what)
		}
	}
	held := newIntake()
	held.acquire(&streamQueue{}, make([]locktable.Acquire, 1))
	woken(held)
	held.take(true, nil)
	if woken(held) {
		t.Error("acquires that are held back bring turn after turn")
	}
}

// Who sends faster than the cell decides is held up; nobody is refused.
func TestFloodBlocksItsStream(t *testing.T) {
	in := newIntake()
	if in.floodEnd() != nil {
		t.Fatal("an empty intake is flooded")
	}
	s := &Stream{tenure: &tenure{intake: in}}
	for range floodMin + 1 {
		in.add(locktable.Heard{})
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if s.Reserve(gone, 1) {
		t.Error("a stream that has ended was read again in a flood")
	}
	reserved := make(chan bool)
	go func() { reserved <- s.Reserve(t.Context(), 1) }()
	first := in.floodEnd()
	in.take(false, nil)
	select {
	case <-first:
	default:
		t.Error("the flood is over, and nobody was told")
	}
	if !<-reserved || in.floodEnd() != nil {
		t.Error("the flood is over, and the stream is held up")
	}
	for range floodMin {
		in.add(locktable.Heard{})
	}
	last := in.floodEnd()
	in.close()
	<-last
	if !s.Reserve(t.Context(), 1) {
		t.Error("a stream is held up by a tenure that is over")
	}
}

// Identities are served in turn, whatever each has waiting and on however many
// streams, and none can take the room of all.
func TestFloodBlocksOnlyItsIdentity(t *testing.T) {
	in := newIntake()
	flood := make([]locktable.Acquire, streamQueueMax)
	for i := range flood {
		flood[i].Number, flood[i].Identity = uint64(i+1), "flood"
	}
	taken := 0
	for range 8 {
		refused, _ := in.acquire(&streamQueue{identity: "flood"}, flood)
		taken += len(flood) - len(refused)
	}
	if taken != QueuedDefault {
		t.Errorf("%d acquires of one identity were taken in, expected %d", taken, QueuedDefault)
	}
	if refused, _ := in.acquire(&streamQueue{identity: "small", limit: 3}, flood[:5]); len(refused) != 2 {
		t.Errorf("%d of 5 were refused under a limit of 3", len(refused))
	}
	_, first, _ := in.take(false, nil)
	quiet := streamQueue{identity: "quiet"}
	own := []locktable.Acquire{{Number: 1, Identity: "quiet"}}
	in.acquire(&quiet, own)
	_, second, _ := in.take(false, first)
	if !slices.ContainsFunc(second, func(c locktable.Command) bool { return c.(locktable.Acquire).Identity == "quiet" }) {
		t.Error("who comes behind a flood is not in the next turn")
	}
}

// When others have filled all there is, an identity that has nothing waiting is
// taken in all the same.
func TestAcquireRoomKeptPerIdentity(t *testing.T) {
	in := newIntake()
	for i := range 2 * queuedMax / QueuedDefault {
		in.acquire(&streamQueue{identity: fmt.Sprint("flood ", i)}, make([]locktable.Acquire, QueuedDefault))
	}
	if in.queued < queuedMax {
		t.Fatalf("%d wait, expected %d", in.queued, queuedMax)
	}
	if refused, _ := in.acquire(&streamQueue{identity: "late"}, make([]locktable.Acquire, QueuedKept+7)); len(refused) != 7 {
		t.Errorf("%d are refused, expected 7", len(refused))
	}
	if refused, _ := in.single(0, locktable.Acquire{Identity: "later", Ref: newCall()}); refused {
		t.Error("one without a stream is refused")
	}
	if refused, _ := in.acquire(&streamQueue{}, make([]locktable.Acquire, 1)); len(refused) != 1 {
		t.Error("who has no name has room of its own")
	}
}

// Who has a name and sends faster than the cell decides is held up, on however many
// streams and calls, and nobody else is.
func TestFloodBlocksItsIdentity(t *testing.T) {
	in := newIntake()
	flood := func() *Stream { return &Stream{tenure: &tenure{intake: in}, sender: Sender{Identity: "flood"}} }
	const streams, each = 100, urgentMax / 4
	var passed atomic.Int64
	ended := make(chan struct{}, streams)
	for range streams {
		go func() {
			defer func() { ended <- struct{}{} }()
			s := flood()
			if s.Reserve(t.Context(), each) {
				in.addOf("flood", each, make([]locktable.Command, each)...)
				passed.Add(1)
			}
		}()
	}
	for range 4 {
		<-ended
	}
	in.mu.Lock()
	waits, weight := len(in.urgent), in.identities["flood"].urgent
	in.mu.Unlock()
	if waits != urgentMax || weight != urgentMax {
		t.Errorf("%d commands of %d wait, weighing %d", waits, streams*each, weight)
	}
	gone, end := context.WithCancel(t.Context())
	end()
	if flood().Reserve(gone, 1) || in.reserve(gone, "flood", 1) {
		t.Error("one more of the flood is taken in")
	}
	other := &Stream{tenure: &tenure{intake: in}, sender: Sender{Identity: "quiet"}}
	if !other.Reserve(gone, 1) || !in.reserve(gone, "", 1) {
		t.Error("another identity is held up")
	}
	other.CancelReservation()
	if in.identities["quiet"].urgent != 0 {
		t.Error("room that was given back is not there")
	}
	in.add(locktable.Heard{Renewal: 7})
	// The quiet one's stands behind no more than may wait of the flood.
	urgent, _, _ := in.take(false, nil)
	if len(urgent) != turnMax {
		t.Errorf("%d in the first turn", len(urgent))
	}
	urgent, _, _ = in.take(false, nil)
	if heard, ok := urgent[0].(locktable.Heard); !ok || heard.Renewal != 7 {
		t.Error("the quiet one waits on behind the flood")
	}
	for passed.Load() < streams {
		select {
		case <-ended:
		case <-in.ready:
			in.take(false, nil)
		}
	}
	for {
		if urgent, _, _ := in.take(false, nil); len(urgent) == 0 {
			break
		}
	}
	if k := in.identities["flood"]; k.urgent != 0 || k.reservations.Len() != 0 || len(in.parts) != 0 {
		t.Errorf("all is decided, and %d weigh on it; %d parts", k.urgent, len(in.parts))
	}
	if !in.reserve(t.Context(), "flood", urgentMax) {
		t.Error("no room in an empty intake")
	}
	held := make(chan bool)
	go func() { held <- flood().Reserve(t.Context(), 1) }()
	in.close()
	if !<-held {
		t.Error("a stream is held up by a tenure that is over")
	}
}

// refusals counts the refusals that a stream is told, by reason.
type refusals map[locktable.Reason]int

func (r refusals) Receive(_ uint64, a locktable.Answer) {
	if no, is := a.(locktable.Refused); is {
		r[no.Reason]++
	}
}

// Acquires for which a stream has no room are refused, and not forgotten.
func TestAcquiresBeyondStreamRoomAreRefused(t *testing.T) {
	told := refusals{}
	s := &Stream{tenure: &tenure{intake: newIntake()}, r: told}
	s.Submit(Message{Acquires: make([]locktable.Acquire, streamQueueMax+5)})
	if told[locktable.Exhausted] != 5 {
		t.Errorf("told %v; 5 acquires had no room", told)
	}
}

// The room that a stream was given for a message is taken up by that message alone,
// and is free again when it is decided or when nothing was submitted.
func TestReservationIsUsedOnce(t *testing.T) {
	in := newIntake()
	s := &Stream{tenure: &tenure{intake: in}, r: refusals{}, sender: Sender{Identity: "a"}}
	for range 3 {
		m := Message{Observe: []string{"n"}}
		if !s.Reserve(t.Context(), m.Weight()) {
			t.Fatal("no room in an empty intake")
		}
		s.Submit(m)
	}
	s.Reserve(t.Context(), 7)
	if got := in.queueOf("a").urgent; got != 3*2+7 {
		t.Errorf("three messages of weight 2, and room for 7 more, weigh %d", got)
	}
	in.take(false, nil)
	if got := in.queueOf("a").urgent; got != 7 {
		t.Errorf("room for 7 weighs %d when all else is decided", got)
	}
	s.CancelReservation()
	if got := in.queueOf("a").urgent; got != 0 {
		t.Errorf("nothing is left, and weighs %d", got)
	}
}

// Renewals that wait for others say so once for each turn.
func TestWaitingRenewalsAreReportedOncePerTurn(t *testing.T) {
	in := newIntake()
	for turn := range 3 {
		for range 2 {
			in.renew("", 0, locktable.Heard{Renewal: 1})
		}
		select {
		case <-in.later:
		default:
			t.Fatalf("turn %d: renewals wait, and nothing will come to take them", turn)
		}
		if len(in.later) > 0 || len(in.ready) > 0 {
			t.Errorf("turn %d: renewals bring more than one turn", turn)
		}
		in.take(false, nil)
	}
}

// A turn takes a portion of each line. Every acquire of a long line is taken by some
// turn, and the intake has room for as many more.
func TestLongQueueIsTakenInPortions(t *testing.T) {
	in := newIntake()
	for _, n := range []int{1, streamQueueMax, turnMax} {
		if refused, _ := in.acquire(&streamQueue{}, make([]locktable.Acquire, n)); len(refused) > 0 {
			t.Fatalf("%d of %d had no room", len(refused), n)
		}
	}
	all := 0
	for range 10 {
		_, taken, _ := in.take(false, nil)
		all += len(taken)
	}
	if want := 1 + streamQueueMax + turnMax; all != want || in.queued != 0 {
		t.Errorf("%d acquires were taken of %d; %d are said to wait", all, want, in.queued)
	}
}

// An identity that is held up is let go when the tenure ends, since nothing will be
// decided that could make room.
func TestReservationsEndWithTenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newIntake()
		in.reserve(t.Context(), "a", urgentMax)
		let := make(chan bool, 1)
		go func() { let <- in.reserve(t.Context(), "a", 1) }()
		synctest.Wait()
		if len(let) > 0 {
			t.Error("there is room beyond urgentMax")
		}
		in.close()
		synctest.Wait()
		select {
		case ok := <-let:
			if !ok {
				t.Error("the caller is told that it has gone")
			}
		default:
			t.Error("the caller waits for room in an intake that is shut")
		}
	})
}
