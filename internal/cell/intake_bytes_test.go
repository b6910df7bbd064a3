package cell

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// large is the largest acquire that can be granted.
func large(identity string) locktable.Acquire {
	a := locktable.Acquire{
		Identity: identity, Label: string(make([]byte, bounds.LabelMax)), Value: make([]byte, bounds.ValueMax),
		Names: make([]string, bounds.NamesMax), Salt: make([]byte, 16),
	}
	for i := range a.Names {
		a.Names[i] = string(make([]byte, bounds.NameMax))
	}
	return a
}

// The bytes of waiting acquires of one identity are bounded, on any number of streams
// and calls. Another identity has room for some when others have filled the rest. All
// room is free again when they are decided.
func TestIntakeBytesAreBounded(t *testing.T) {
	in := newIntake()
	one := large("")
	size := bytesOf(&one)
	if n := QueuedBytesKept / size; n < 2 {
		t.Fatalf("an acquire takes up %d bytes; %d of the largest fit into the room that is kept", size, n)
	}
	flood := slices.Repeat([]locktable.Acquire{one}, 100)
	fill := func(identity string) (taken int) {
		for {
			refused, _ := in.acquire(&streamQueue{identity: identity}, flood)
			if taken += len(flood) - len(refused); len(refused) > 0 {
				return taken
			}
		}
	}
	for round := range 2 {
		for i := range 3 {
			if n := fill(fmt.Sprint("flood ", i)); n != QueuedBytesMax/size {
				t.Errorf("round %d: %d acquires of one identity were taken in, expected %d", round, n, QueuedBytesMax/size)
			}
		}
		if n, want := fill(""), (AllQueuedBytesMax-keptBytesMax)/size-3*(QueuedBytesMax/size); n != want {
			t.Errorf("round %d: %d of who has no name were taken in, expected %d", round, n, want)
		}
		if n := fill("late"); n != QueuedBytesKept/size {
			t.Errorf("round %d: %d of who comes late were taken in, expected %d", round, n, QueuedBytesKept/size)
		}
		if refused, _ := in.single(0, large("later")); refused {
			t.Errorf("round %d: one without a stream has no room", round)
		}
		if refused, _ := in.single(0, large("late")); !refused {
			t.Errorf("round %d: one has more than is kept for it", round)
		}
		for in.queued > 0 {
			in.take(false, nil)
		}
		if in.bytes != 0 {
			t.Fatalf("round %d: nothing waits, and takes up %d bytes", round, in.bytes)
		}
	}
}

// What is kept for those who come late is within the bound of all: many at once may
// use it up.
func TestKeptRoomIsWithinTotalBound(t *testing.T) {
	in := newIntake()
	one := []locktable.Acquire{large("")}
	for i := range (AllQueuedBytesMax - keptBytesMax) / bytesOf(&one[0]) {
		in.acquire(&streamQueue{identity: fmt.Sprint("flood ", i%3)}, one)
	}
	served := 0
	for i := range 1000 {
		refused, _ := in.acquire(&streamQueue{identity: fmt.Sprint("late ", i)}, slices.Repeat(one, 3))
		if len(refused) == 1 {
			served++
		}
	}
	if want := keptBytesMax / QueuedBytesKept; served < want {
		t.Errorf("%d who came late had room, expected %d", served, want)
	}
	if in.bytes > AllQueuedBytesMax || in.bytes < AllQueuedBytesMax-bytesOf(&one[0]) {
		t.Errorf("%d bytes wait", in.bytes)
	}
}

// The room that is kept is for QueuedKept acquires of an ordinary size.
func TestOrdinaryAcquiresFitKeptRoom(t *testing.T) {
	a := locktable.Acquire{Names: []string{string(make([]byte, 64))}, Label: string(make([]byte, 64)), Value: make([]byte, 256)}
	if n := QueuedBytesKept / bytesOf(&a); n < QueuedKept {
		t.Errorf("%d acquires of %d bytes fit, and %d are kept room for", n, bytesOf(&a), QueuedKept)
	}
}

// A client whose stream ends while its acquires wait asks for the same again on the
// next stream. What it asked for before is not in its way.
func TestEndedStreamLeavesNothingQueued(t *testing.T) {
	in := newIntake()
	other := &streamQueue{identity: "a"}
	in.acquire(other, []locktable.Acquire{{Number: 7}})
	told := refusals{}
	for range 5 {
		s := &Stream{cell: New(Options{}), tenure: &tenure{intake: in}, r: told, queue: streamQueue{identity: "a"}, sender: Sender{Identity: "a"}}
		m := Message{Acquires: make([]locktable.Acquire, QueuedDefault-1)}
		m.Acquires[0] = large("a")
		s.Submit(m)
		if in.queued != QueuedDefault {
			t.Fatalf("%d acquires wait", in.queued)
		}
		s.Detach()
	}
	if len(told) > 0 {
		t.Errorf("told %v", told)
	}
	_, taken, _ := in.take(false, nil)
	if len(taken) != 1 || taken[0].(locktable.Acquire).Number != 7 {
		t.Errorf("%d acquires are left", len(taken))
	}
	if k := in.queueOf("a"); in.bytes != 0 || in.queued != 0 || k.bytes != 0 || k.queued != 0 || len(in.ring) != 0 || len(k.queues) != 0 {
		t.Errorf("nothing waits; %d acquires and %d bytes are said to, in %d lines", in.queued, in.bytes, len(k.queues))
	}
}

// A caller that gives up while its acquire waits leaves no bytes of it, also when
// nothing is decided for long.
func TestCancelledCallReturnsItsBytes(t *testing.T) {
	in := newIntake()
	for range 2 * QueuedBytesMax / bytesOf(&locktable.Acquire{Value: make([]byte, bounds.ValueMax)}) {
		x := newCall()
		if refused, _ := in.single(0, locktable.Acquire{Ref: x, Identity: "a", Value: make([]byte, bounds.ValueMax)}); refused {
			t.Fatalf("no room, and %d bytes wait", in.bytes)
		}
		for range 2 { // the second time changes nothing
			if !in.withdraw(x) {
				t.Fatal("what stands in line cannot be withdrawn")
			}
		}
	}
	if in.bytes != 0 {
		t.Errorf("nothing waits, and takes up %d bytes", in.bytes)
	}
	for in.queued > 0 {
		if _, taken, _ := in.take(false, nil); len(taken) > 0 {
			t.Errorf("%d withdrawn acquires are taken", len(taken))
		}
	}
	x := newCall()
	in.single(0, locktable.Acquire{Ref: x, Identity: "a"})
	in.close()
	if !in.withdraw(x) || in.bytes != 0 {
		t.Errorf("a shut intake has %d bytes", in.bytes)
	}
}

// An intake under many sizes and ends takes in what a naive account of what waits has
// room for, keeps the order of each line, and is left empty.
func TestIntakeAgainstModel(t *testing.T) {
	reached := map[string]int{}
	for seed := range uint64(15) {
		m := &intakeModel{t: t, in: newIntake(), rand: rand.New(rand.NewPCG(seed, 1)), spare: make([]byte, 4<<20), reached: reached}
		for range 600 {
			m.act()
		}
		for len(m.all) > 0 && !t.Failed() {
			m.take(false)
		}
		m.check()
		if len(m.in.ring) != 0 {
			t.Error("somebody is listed who has nothing waiting")
		}
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
	for _, what := range []string{"own", "all", "behind"} {
		if reached[what] == 0 {
			t.Errorf("%q was not reached; the bounds that refused something: %v", what, reached)
		}
	}
}

type intakeModel struct {
	t     *testing.T
	in    *intake
	rand  *rand.Rand
	spare []byte
	// all are the acquires that wait, in the order in which they came.
	all   []modelled
	lines []*streamQueue
	next  uint64
	// reached counts what was refused, by what was full.
	reached map[string]int
}

type modelled struct {
	number uint64
	line   *streamQueue
	// call of one without a stream; gone: it was withdrawn.
	call     *call
	gone     bool
	identity string
	bytes    int
}

func (m *intakeModel) act() {
	switch n := m.rand.IntN(40); {
	case n < 22:
		l := m.line()
		var batch []locktable.Acquire
		for range 1 + m.rand.IntN(60) {
			batch = append(batch, m.acquire(l.identity))
		}
		refused, open := m.in.acquire(l, batch)
		m.came(l, batch, refused, open)
	case n < 30:
		x := newCall()
		a := m.acquire(m.identity())
		a.Ref = x
		refused, open := m.in.single(0, a)
		m.came(&m.in.identities[a.Identity].unary, []locktable.Acquire{a}, []locktable.Acquire{a}[:number(refused)], open)
	case n < 34:
		if i := slices.IndexFunc(m.all, func(x modelled) bool { return x.call != nil && m.rand.IntN(4) == 0 }); i >= 0 {
			if !m.in.withdraw(m.all[i].call) {
				m.t.Error("what waits cannot be withdrawn")
			}
			m.all[i].gone = true
		}
	case n < 36 && len(m.lines) > 0:
		i := m.rand.IntN(len(m.lines))
		l := m.lines[i]
		m.in.drop(l)
		m.lines = slices.Delete(m.lines, i, i+1)
		m.all = slices.DeleteFunc(m.all, func(x modelled) bool { return x.line == l })
	case n < 38:
		m.take(true)
	case n < 39 && m.rand.IntN(12) == 0:
		m.take(false)
	}
	m.check()
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

func (m *intakeModel) identity() string {
	return []string{"", "a", "b", "c", "d", "e"}[m.rand.IntN(6)]
}

func (m *intakeModel) line() *streamQueue {
	if n := len(m.lines); n > 0 && m.rand.IntN(8) > 0 {
		return m.lines[m.rand.IntN(n)]
	}
	l := &streamQueue{identity: m.identity()}
	m.lines = append(m.lines, l)
	return l
}

func (m *intakeModel) acquire(identity string) locktable.Acquire {
	m.next++
	a := locktable.Acquire{Number: m.next, Identity: identity, Names: []string{"n", "m"}[:1+m.rand.IntN(2)]}
	switch m.rand.IntN(60) {
	case 0: // larger than any that can be granted
		a.Value = m.spare[:m.rand.IntN(len(m.spare))]
	case 1, 2, 3:
		a.Label = "label"
	default:
		a.Value = m.spare[:m.rand.IntN(1<<17)]
	}
	return a
}

// came holds what was taken in against the account, by the bounds as the documentation
// has them.
func (m *intakeModel) came(l *streamQueue, batch, refused []locktable.Acquire, open bool) {
	if !open {
		m.t.Error("the intake is shut")
	}
	taken := batch[:len(batch)-len(refused)]
	for i := range batch {
		a := &batch[i]
		own, all := bytesOf(a), bytesOf(a)
		for _, x := range m.all {
			if x.gone {
				continue
			}
			all += x.bytes
			if x.identity == a.Identity {
				own += x.bytes
			}
		}
		why := ""
		switch kept := a.Identity != "" && own <= 262_144; {
		case a.Identity != "" && own > 67_108_864:
			why = "own"
		case kept && all > 268_435_456:
			why = "kept"
		case !kept && all > 268_435_456-67_108_864:
			why = "all"
		}
		if (why == "") != (i < len(taken)) {
			m.t.Errorf("acquire %d of %q: %d bytes wait of it, %d of all; %d of %d were taken in", i, a.Identity, own, all, len(taken), len(batch))
		}
		if why != "" {
			m.reached[why]++
			m.reached["behind"] += len(batch) - i - 1
			return
		}
		x := modelled{number: a.Number, line: l, identity: a.Identity, bytes: bytesOf(a)}
		x.call, _ = a.Ref.(*call)
		m.all = append(m.all, x)
	}
}

// take holds what a turn takes against the account: from each line the first ones.
func (m *intakeModel) take(held bool) {
	_, taken, _ := m.in.take(held, nil)
	if held && len(taken) > 0 {
		m.t.Errorf("%d acquires taken while they are held back", len(taken))
	}
	for _, c := range taken {
		at := slices.IndexFunc(m.all, func(x modelled) bool { return x.number == c.(locktable.Acquire).Number })
		if at < 0 || m.all[at].gone {
			m.t.Errorf("acquire %d is taken, and does not wait", c.(locktable.Acquire).Number)
			return
		}
		l := m.all[at].line
		if first := slices.IndexFunc(m.all, func(x modelled) bool { return x.line == l && !x.gone }); first != at {
			m.t.Errorf("acquire %d of a line is taken before %d", m.all[at].number, m.all[first].number)
		}
		m.all = slices.Delete(m.all, at, at+1)
	}
	// Of a line that is served up to its end no withdrawn ones are left.
	m.all = slices.DeleteFunc(m.all, func(x modelled) bool { return x.gone && x.call.queued.queue == nil })
}

// check holds the intake's counts against the account.
func (m *intakeModel) check() {
	queued, bytes := map[string]int{}, map[string]int{}
	for _, x := range m.all {
		queued[x.identity]++
		if !x.gone {
			bytes[x.identity] += x.bytes
		}
	}
	var allQueued, allBytes int
	for name, k := range m.in.identities {
		allQueued += queued[name]
		allBytes += bytes[name]
		if k.queued != queued[name] || k.bytes != bytes[name] || k.listed != slices.Contains(m.in.ring, k) {
			m.t.Errorf("%q has %d acquires of %d bytes waiting, in turn %v; expected %d of %d", name, k.queued, k.bytes, k.listed, queued[name], bytes[name])
		}
	}
	if m.in.queued != allQueued || m.in.bytes != allBytes || allBytes > AllQueuedBytesMax {
		m.t.Errorf("%d acquires of %d bytes wait, expected %d of %d", m.in.queued, m.in.bytes, allQueued, allBytes)
	}
}
