package sim

import (
	"bytes"
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// saveBefore are the moments that a roll-back may go back to, by the Target of
// its fault: any, or just before a write of this kind lands.
var saveBefore = [...]kvlog.What{"", kvlog.WhatAppend, kvlog.WhatChunk, kvlog.WhatPublish, kvlog.WhatOpen, kvlog.WhatClaim}

// beforeClaim is the place of WhatClaim among them.
const beforeClaim = len(saveBefore) - 1

// rollBackSoon saves the store at the moment that the fault names, and sets it
// back after the fault's time.
func (d *disk) rollBackSoon(f Fault) {
	w := d.world
	save := func() {
		if w.faultsOver {
			return
		}
		d.save()
		w.at(min(w.now+f.For, w.plan.FaultsEnd), d.rollBack)
	}
	if what := saveBefore[f.Target%len(saveBefore)]; what != "" {
		d.watched, d.onWatch = what, save
		return
	}
	save()
}

// save keeps what a roll-back will go back to.
func (d *disk) save() {
	state, r := d.Save(), d.world.referee
	if len(r.log) == 0 {
		return
	}
	d.saved = &state
	d.ledger = saved{log: len(r.log), behind: map[uint64][]byte{}, tenure: r.tenure, pointer: r.pointer}
	for n, raw := range r.behind {
		d.ledger.behind[n] = raw
	}
}

// rollBack loses what the store has acknowledged since save.
func (d *disk) rollBack() {
	if d.saved == nil {
		return
	}
	w := d.world
	r := w.referee
	w.note("fault", "the store is back at batch %d, and was at %d", d.ledger.log, len(r.log))
	d.Restore(*d.saved)
	r.tally.Rollbacks++
	r.rolled, r.rebuilding = true, true
	log, since, left, behind := r.log, r.since, d.ledger.log, r.behind
	r.log, r.sums, r.since, r.behind, r.tenure, r.pointer = nil, nil, nil, d.ledger.behind, d.ledger.tenure, d.ledger.pointer
	highest, tally := r.highest, r.tally
	r.highest, r.ledger = 0, newLedger(r)
	for n, raw := range log[:left] {
		r.durable(raw, since[n])
	}
	r.highest, r.tally, r.rebuilding = highest, tally, false
	for _, raw := range log[left:] {
		r.loses(raw)
	}
	for n, raw := range behind { //tidy:unordered each batch for itself
		if !bytes.Equal(r.behind[n], raw) {
			r.loses(raw)
		}
	}
	r.observers.changed(r.ledger)
	r.waiters.setBack()
}

// setBackATakeOver makes a world in which the active server is away, another takes over
// and works, and the store is set back to before that. The first server comes back
// before or after the set-back.
func (p *Plan) setBackATakeOver(r *rand.Rand) {
	p.Servers = 2 + r.IntN(2)
	for i := range p.Drifts {
		p.Drifts[i].Wall = 0
	}
	at := between(r, 2*time.Second, p.FaultsEnd/2)
	back := between(r, 500*time.Millisecond, 5*time.Second)
	away := p.ActiveTTL*5/4 + between(r, 0, back+time.Second)
	if r.IntN(4) > 0 {
		away = p.ActiveTTL*5/4 + back + between(r, 0, time.Second)
	}
	p.oneOfLongPatience(&back, &away)
	p.Faults = []Fault{
		{Kind: RollBack, At: at, For: back, Target: beforeClaim},
		{
			Kind: pick(r, PauseServer, CutServer, CutServer, SuspendServer), Target: activeServer, At: at + time.Millisecond,
			For: min(away, p.FaultsEnd-at),
		},
	}
	if r.IntN(3) == 0 {
		p.FaultRates.Repeat = 0.3
	}
}

// oneOfLongPatience makes the first server's active-ttl three times that of the others,
// in some worlds. If the others went by their own, one could take over, and the store
// be set back, while the first server still trusts its tenure.
func (p *Plan) oneOfLongPatience(back, away *time.Duration) {
	r := rand.New(rand.NewPCG(p.Seed, purposeActiveTTLs))
	if r.IntN(2) > 0 {
		return
	}
	p.ActiveTTLs = []time.Duration{3 * p.ActiveTTL}
	for range p.Servers - 1 {
		p.ActiveTTLs = append(p.ActiveTTLs, p.ActiveTTL)
	}
	if r.IntN(3) > 0 {
		*back = between(r, p.ActiveTTL/4, p.ActiveTTL)
		*away = p.ActiveTTL*5/4 + *back + between(r, 0, p.ActiveTTL/4)
	} else {
		*away += 2 * p.ActiveTTL
	}
}
