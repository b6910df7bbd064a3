package sim

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// referee watches. It knows the true time and everybody's state, and nobody
// asks it anything.
type referee struct {
	world *World
	tally Tally

	ledger *ledger
	// log is the durable log; behind holds what landed behind a hole.
	log    [][]byte
	behind map[uint64][]byte
	// sums are those of the batches of the log, since when each of them is durable.
	sums  []store.Sum
	since []time.Duration
	// tenure in force.
	tenure tenure
	// deposed is when the tenure after another was claimed, whether or not the store has
	// lost that claim since. tenures are all that ever served.
	deposed map[tenure]time.Duration
	tenures map[tenure]*servedTenure
	// lost are the batches that a set-back has taken away and that have not landed again,
	// void is until when each session may believe in a void promise; see served_tenure.go.
	lost map[store.Sum]bool
	void map[locktable.ID]time.Duration
	// from is the served tenure that an answer came from, by the answer's receiver;
	// granter is the same by the token that was granted.
	from    map[locktable.Ref]*servedTenure
	granter map[guard.Token]*servedTenure
	// pointer is the batch that the present snapshot follows.
	pointer uint64
	// highest token ever granted by a durable log, lost or not; last of each name.
	highest guard.Token
	last    map[string]guard.Token
	// ever holds all grants, those that the store has lost as well.
	ever map[guard.Token]*entry
	// waiters of who waits.
	waiters   queue
	observers observers
	// times of tenures; see times.go.
	times times
	// keyed is when a request id was first sent.
	keyed map[locktable.ID]time.Duration
	// hungUp is when a server decided that the connection had ended which waited for a
	// lease of this id.
	hungUp map[locktable.ID]time.Duration
	// promises of renewals; see ttl.go.
	promises promises
	// leases that their holders may believe in.
	leases []*lease
	// rolled: the store was set back. rebuilding: the ledger is made anew from what is
	// left of the log, and nothing is held against anything.
	rolled, rebuilding bool
}

// tenure is one claim. Two of an epoch differ in their nonce, after a set-back; a
// claimant that was not the first tries again, for another epoch, under its nonce.
type tenure struct {
	epoch uint64
	nonce store.Nonce
}

// saved is what a roll-back sets the referee back to.
type saved struct {
	log     int
	behind  map[uint64][]byte
	tenure  tenure
	pointer uint64
}

func newReferee(w *World) *referee {
	r := &referee{
		world: w, behind: map[uint64][]byte{}, last: map[string]guard.Token{},
		deposed: map[tenure]time.Duration{}, tenures: map[tenure]*servedTenure{}, lost: map[store.Sum]bool{},
		void: map[locktable.ID]time.Duration{}, from: map[locktable.Ref]*servedTenure{}, granter: map[guard.Token]*servedTenure{},
		ever: map[guard.Token]*entry{}, keyed: map[locktable.ID]time.Duration{}, hungUp: map[locktable.ID]time.Duration{},
	}
	r.ledger, r.waiters, r.times = newLedger(r), queue{referee: r, requests: map[asked]*request{}, askers: map[locktable.ID]locktable.Ref{}}, newTimes(r)
	r.observers = newObservers(r)
	r.promises = newPromises(r)
	return r
}

var keys kvlog.Keys

// numberOf reads the number in a key of the log.
func numberOf(key string) (uint64, bool) {
	digits, ok := strings.CutPrefix(key, "log/")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

// landed takes in a transaction that the disk has carried out.
func (r *referee) landed(t kvlog.Txn, res kvlog.Result) {
	if !res.OK {
		return
	}
	for _, op := range t.Then {
		n, isLog := numberOf(op.Key)
		switch {
		case op.Kind == kvlog.OpPut && isLog:
			r.put(t.What, n, op.Value)
		case op.Kind == kvlog.OpPut && op.Key == keys.Tenure():
			r.claim(t.What, op.Value)
		case op.Kind == kvlog.OpPut && op.Key == keys.Snapshot():
			var v struct{ Batch uint64 }
			_ = json.Unmarshal(op.Value, &v)
			r.pointer = v.Batch
			r.published()
		case op.Kind == kvlog.OpDelete && isLog:
			r.cut(t.What, n, op.End)
		}
	}
}

func (r *referee) claim(what kvlog.What, value []byte) {
	var v struct {
		Epoch uint64
		Nonce string
	}
	_ = json.Unmarshal(value, &v)
	if what == kvlog.WhatResign {
		return
	}
	if v.Epoch <= r.tenure.epoch {
		r.world.fail("I4", "epoch %d is claimed after epoch %d", v.Epoch, r.tenure.epoch)
	}
	r.deposed[r.tenure] = r.world.now
	r.tenure.epoch = v.Epoch
	_, _ = hex.Decode(r.tenure.nonce[:], []byte(v.Nonce))
}

// put takes in a batch. It may not replace one that is durable, nor be one of a
// tenure that has ended.
func (r *referee) put(what kvlog.What, n uint64, raw []byte) {
	w := r.world
	h, err := store.HeaderOf(raw)
	if err != nil {
		w.fail("I4", "batch %d does not read: %v", n, err)
		return
	}
	if what != kvlog.WhatFresh && h.Epoch != r.tenure.epoch {
		w.fail("I4", "batch %d of epoch %d lands while epoch %d is in force", n, h.Epoch, r.tenure.epoch)
	}
	if n <= uint64(len(r.log)) {
		w.fail("I4", "batch %d is written over, and was durable", n)
		return
	}
	w.trace.mix(n)
	w.trace.bytes(h.Sum[:])
	r.behind[n] = raw
	delete(r.lost, h.Sum)
	for {
		next := uint64(len(r.log)) + 1
		raw, ok := r.behind[next]
		if !ok {
			return
		}
		delete(r.behind, next)
		r.durable(raw, w.now)
	}
}

// durable takes in the next batch of the log, which is durable since then.
func (r *referee) durable(raw []byte, since time.Duration) {
	r.log, r.sums, r.since = append(r.log, raw), append(r.sums, store.Sum{}), append(r.since, since)
	b, sum, err := store.OpenBatch(raw)
	if err != nil {
		r.world.fail("I4", "batch %d does not read: %v", len(r.log), err)
		return
	}
	r.sums[len(r.sums)-1] = sum
	r.ledger.now = since
	for i, e := range b.Events {
		r.ledger.at = r.times.when(sum, i)
		r.ledger.apply(e)
	}
}

// published: a snapshot follows a durable batch, also after a roll-back that its
// server has not seen yet.
func (r *referee) published() {
	if r.pointer > uint64(len(r.log)) {
		r.world.fail("I3", "a snapshot of batch %d is published, and %d are durable", r.pointer, len(r.log))
	}
}

// cut takes in that batches from n on, up to a key, were deleted.
func (r *referee) cut(what kvlog.What, n uint64, end string) {
	if what == kvlog.WhatTruncate {
		if m, ok := numberOf(end); !ok || m > r.pointer+1 {
			r.world.fail("I4", "batches up to %s are deleted, and the snapshot follows batch %d", end, r.pointer)
		}
		return
	}
	if n <= uint64(len(r.log)) {
		r.world.fail("I4", "batches from %d on are cut, and %d are durable", n, len(r.log))
	}
	for k := range r.behind {
		if k >= n {
			delete(r.behind, k)
		}
	}
}

// quit takes in why a tenure ended.
func (r *referee) quit(s *server, why error) {
	switch {
	case errors.Is(why, store.ErrDamaged):
		r.world.fail("I4", "%s finds damage: %v", s.name, why)
	case errors.Is(why, store.ErrRolledBack) && !r.rolled:
		r.world.fail("I4", "%s finds the store rolled back, and it was not: %v", s.name, why)
	}
}

// before marks a batch that was decided before a tenure was claimed which a roll-back
// has lost since. It lands late, and its server answers no one; see
// docs/internals/set-back.md.
func (r *referee) before() bool {
	lost, ok := r.deposed[r.tenure]
	return ok && r.ledger.at < lost
}

// same: a batch that a roll-back lost has landed again, late, with the grant that
// was in it.
func (r *referee) same(x *entry) bool {
	before := r.ever[x.token]
	return before != nil && before.session == x.session && before.name == x.name
}

// sessionEnds holds the end of a session against what its holder believes.
func (r *referee) sessionEnds(id locktable.ID) {
	if r.rebuilding || r.excused(id) {
		return
	}
	w := r.world
	for _, c := range w.clients {
		if w.plan.Wild {
			break
		}
		if left := c.deadline.Left(c.clock.read(w.now)); c.session == id && left > 0 {
			w.fail("I5", "the session of %s has ended, and it trusts it for %v", c.name, left)
		}
	}
	for _, l := range r.leases {
		if l.session == id {
			r.trusts(l, "its session has ended")
		}
	}
}

// dropped holds the end of one lease against what its holder believes.
func (r *referee) dropped(x *entry) {
	for _, l := range r.leases {
		if l.token == x.token {
			r.trusts(l, "it was released by nobody")
		}
	}
}

// trusts fails when a holder still believes in a lease that is not its own.
func (r *referee) trusts(l *lease, why string) {
	if x := r.ledger.entries[l.token]; l.ended || l.releasing || r.rebuilding || r.excused(l.session) || x != nil && x.forced {
		return
	}
	left := l.holder.trusted(l)
	switch {
	case left > 0 && r.world.plan.Wild:
		r.tally.Overruns++
	case left > 0:
		r.world.fail("I5", "%s trusts token %d of %s for %v, and %s", l.holder.who().name, l.token, l.name, left, why)
	}
}

// granted holds a grant against what others believe.
func (r *referee) granted(x *entry) {
	if r.rebuilding {
		return
	}
	r.tally.Grants++
	for _, g := range x.grants {
		n := guardResource(g.Name, g.Slot)
		r.last[n] = max(r.last[n], guard.Token(g.Fence))
	}
	keep := r.leases[:0]
	for _, l := range r.leases {
		if l.ended {
			continue
		}
		keep = append(keep, l)
		if l.token != x.token && x.holdsAgainst(l) {
			r.trusts(l, fmt.Sprintf("it is granted with token %d", x.token))
		}
	}
	r.leases = keep
	r.letIn(x)
}

// holds takes in that a holder believes in a lease from now on.
func (r *referee) holds(l *lease) {
	r.leases = append(r.leases, l)
	r.believes(l.holder, l.session)
}

// believes takes in that a holder's deadline has moved.
func (r *referee) believes(h holder, session locktable.ID) {
	s := r.ledger.sessions[session]
	if s == nil || !s.over {
		return
	}
	for _, l := range r.leases {
		if l.holder == h && l.session == session {
			r.trusts(l, "its session has ended before")
		}
	}
}
