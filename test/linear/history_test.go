package linear

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/anishathalye/porcupine"
)

type verb uint8

const (
	verbAcquire verb = iota
	verbTry
	verbRelease
	verbCheck
	// verbClose is the end of a client by itself, verbEnd that of its sessions
	// by an operator.
	verbClose
	verbEnd
	// verbDeadline says that a lease may end without its holder from now on, since its
	// local deadline has passed. verbLost says that a client has noticed that its
	// session is over.
	verbDeadline
	verbLost
)

func (v verb) String() string {
	return [...]string{"acquire", "try", "release", "check", "close", "end sessions", "deadline", "session lost"}[v]
}

type outcome uint8

const (
	// unknown: an error that says nothing of what the server did.
	unknown outcome = iota
	done
	// held: refused, because somebody holds the name or waits for it.
	held
	// gone: the lease is not held any more.
	gone
)

func (o outcome) String() string { return [...]string{"unknown", "done", "held", "gone"}[o] }

// record is one thing that was called, and what came of it. Stamps are places in
// the one order in which everybody's calls and returns were noted.
type record struct {
	verb    verb
	outcome outcome
	// client is a number that no other client has.
	client int
	name   string
	mode   mode
	// token granted, released, checked, or told by a refusal (0: nobody's).
	token, fence uint64
	slot         int
	// slots of the name, 0: slotsMax.
	slots     int
	call, ret int64
}

func (r record) String() string {
	s := fmt.Sprintf("client %d: %v", r.client, r.verb)
	if r.name != "" {
		s += fmt.Sprintf(" %s %v", r.name, r.mode)
	}
	if r.token != 0 {
		s += fmt.Sprintf(" token %d", r.token)
	}
	if r.slot != 0 {
		s += fmt.Sprintf(" slot %d", r.slot)
	}
	return s + " → " + r.outcome.String()
}

// history is what is recorded, by several goroutines at once.
type history struct {
	mu      sync.Mutex
	stamp   int64
	records []record
}

// begin notes a call.
func (h *history) begin() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stamp++
	return h.stamp
}

// end notes a return.
func (h *history) end(r record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stamp++
	r.ret = h.stamp
	h.records = append(h.records, r)
}

// moment notes what takes no time.
func (h *history) moment(r record) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stamp++
	r.call, r.ret = h.stamp, h.stamp
	h.records = append(h.records, r)
}

// names that occur, in order.
func names(all []record) []string {
	var names []string
	for _, r := range all {
		if r.name != "" && !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	slices.Sort(names)
	return names
}

func (r record) asks() bool { return r.verb == verbAcquire || r.verb == verbTry }

func (r record) grants() bool { return r.asks() && r.outcome == done }

// until is when the last effect of a record may be.
func (r record) until() int64 {
	if r.outcome == unknown {
		return forever
	}
	return r.ret
}

// rising checks that a token granted after another's grant had returned is
// higher, over all names, and that no token is granted twice.
func rising(all []record) error {
	var grants []record
	for _, r := range all {
		if r.grants() {
			grants = append(grants, r)
		}
	}
	slices.SortFunc(grants, func(a, b record) int { return cmp.Compare(a.call, b.call) })
	seen := map[uint64]record{}
	byReturn := slices.Clone(grants)
	slices.SortFunc(byReturn, func(a, b record) int { return cmp.Compare(a.ret, b.ret) })
	var highest record
	for _, g := range grants {
		if prev, ok := seen[g.token]; ok && (prev.client != g.client || prev.call != g.call) {
			return fmt.Errorf("token %d was granted twice", g.token)
		}
		seen[g.token] = g
		for len(byReturn) > 0 && byReturn[0].ret < g.call {
			if byReturn[0].token > highest.token {
				highest = byReturn[0]
			}
			byReturn = byReturn[1:]
		}
		if g.token <= highest.token && highest.ret < g.call {
			return fmt.Errorf("{%v} was called after {%v} had returned", g, highest)
		}
	}
	return nil
}

// steps makes of a history what porcupine is to order for one name. An error
// says what no order could explain.
func steps(all []record, name string) ([]porcupine.Operation, error) {
	b := builder{all: all, name: name}
	for _, r := range all {
		if r.name != name {
			continue
		}
		switch {
		case r.grants():
			b.grant(r)
		case r.verb == verbRelease:
			b.release(r)
		case r.verb == verbDeadline:
			b.add(r, step{kind: stepMayEnd}, r.call, forever)
		case r.verb == verbCheck && r.outcome == done:
			b.add(r, step{kind: stepHeld}, r.call, r.ret)
		case r.verb == verbCheck && r.outcome == gone:
			b.add(r, step{kind: stepGone}, r.call, r.ret)
		case r.asks() && r.outcome == held:
			if err := b.refused(r); err != nil {
				return nil, err
			}
		}
	}
	b.ops = append(b.ops, porcupine.Operation{Input: step{kind: stepCurtain, told: "the end"}, Call: curtain, Return: forever})
	lanes(b.ops)
	return b.ops, nil
}

type builder struct {
	all    []record
	name   string
	ops    []porcupine.Operation
	ghosts []uint64
}

func (b *builder) add(r record, s step, call, ret int64) {
	s.token, s.mode, s.fence, s.slot, s.slots, s.told = r.token, r.mode, r.fence, r.slot, cmp.Or(r.slots, slotsMax), r.String()
	b.ops = append(b.ops, porcupine.Operation{Input: s, Call: call, Return: ret})
}

// grant is the lease's beginning, and what its client's end does to it.
func (b *builder) grant(g record) {
	b.add(g, step{kind: stepGrant}, g.call, g.ret)
	for _, r := range b.all {
		if r.client != g.client || r.verb != verbClose && r.verb != verbEnd {
			continue
		}
		s, until := step{kind: stepMayEnd}, int64(forever)
		if r.verb == verbClose && r.outcome == done && !b.lostBefore(r) {
			s.kind, until = stepEnd, r.ret
		}
		end := g
		end.verb, end.outcome = r.verb, r.outcome
		b.add(end, s, r.call, until)
	}
}

// lostBefore reports whether a client had more sessions than the one that its
// close has ended.
func (b *builder) lostBefore(closing record) bool {
	return slices.ContainsFunc(b.all, func(r record) bool {
		return r.client == closing.client && (r.verb == verbLost && r.call < closing.ret || r.verb == verbDeadline)
	})
}

func (b *builder) release(r record) {
	before := false
	for _, x := range b.all {
		before = before || x.verb == verbRelease && x.name == r.name && x.token == r.token && x.call < r.call ||
			x.client == r.client && x.verb == verbEnd && x.call < r.ret
	}
	switch {
	case r.outcome == unknown:
		b.add(r, step{kind: stepMayEnd}, r.call, forever)
	case before || r.outcome == gone:
		// What has ended before may be released again.
		b.add(r, step{kind: stepEnd}, r.call, r.ret)
	default:
		b.add(r, step{kind: stepRelease}, r.call, r.ret)
	}
}

// refused is an answer that names a holder, or nobody.
func (b *builder) refused(r record) error {
	if r.token == 0 {
		if !slices.ContainsFunc(b.all, func(x record) bool {
			return x.verb == verbAcquire && x.name == r.name && x.call < r.ret && r.call < x.until()
		}) {
			return fmt.Errorf("{%v}: nobody holds it, and nobody waits", r)
		}
		return nil
	}
	granted := func(x record) bool { return x.grants() && x.token == r.token }
	here := slices.ContainsFunc(b.all, func(x record) bool { return granted(x) && x.name == r.name })
	if i := slices.IndexFunc(b.all, granted); i >= 0 && !here {
		return fmt.Errorf("{%v}: that token is {%v}", r, b.all[i])
	}
	b.add(r, step{kind: stepHeld}, r.call, r.ret)
	if !here && !slices.Contains(b.ghosts, r.token) {
		b.ghosts = append(b.ghosts, r.token)
		return b.unseen(r)
	}
	return nil
}

// unseen is the grant of a lease that was never told of but by refusals: to
// somebody who asked and was told an error, or whose session ended meanwhile.
func (b *builder) unseen(seen record) error {
	for _, r := range b.all {
		if r.asks() && r.name == b.name && r.outcome == held && r.token == seen.token && r.ret < seen.ret {
			seen = r
		}
	}
	g := seen
	g.call, g.ret, g.mode = math.MaxInt64, 0, exclusive
	for _, r := range b.all {
		if !r.asks() || r.name != b.name || r.call > seen.ret || r.outcome != unknown && !b.lostDuring(r) {
			continue
		}
		g.call, g.mode = min(g.call, r.call), max(g.mode, r.mode)
		g.ret = max(g.ret, b.unseenUntil(r))
	}
	if g.ret == 0 {
		return fmt.Errorf("{%v}: nobody asked for that lease", seen)
	}
	b.add(g, step{kind: stepUnseen}, g.call, min(g.ret, seen.ret))
	// A ghost whose client has closed its session is gone; without that it
	// goes unseen.
	if g.ret < forever {
		b.add(g, step{kind: stepEnd}, g.call, g.ret)
	}
	return nil
}

func (b *builder) lostDuring(r record) bool {
	return slices.ContainsFunc(b.all, func(x record) bool {
		return x.client == r.client && x.verb == verbLost && r.call <= x.call && x.call <= r.ret
	})
}

// unseenUntil is when a grant that an acquire was not told of is gone for certain.
func (b *builder) unseenUntil(r record) int64 {
	for _, x := range b.all {
		if x.client == r.client && x.verb == verbClose && x.outcome == done && !b.lostBefore(x) {
			return x.ret
		}
	}
	return forever
}

// lanes gives whatever overlaps in the drawing a line of its own.
func lanes(ops []porcupine.Operation) {
	slices.SortStableFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var busy []int64
	for i := range ops {
		lane := slices.IndexFunc(busy, func(until int64) bool { return until < ops[i].Call })
		if lane < 0 {
			lane = len(busy)
			busy = append(busy, 0)
		}
		busy[lane] = ops[i].Return
		ops[i].ClientId = lane
	}
}
