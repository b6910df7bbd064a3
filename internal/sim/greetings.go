package sim

import (
	"math/rand/v2"
	"time"
)

// drawGreetings has greetings be late in some worlds, and waiters be renumbered early.
func drawGreetings(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeGreetings))
	p.Spread = pick[uint64](r, 0, 4, 8, 16)
	if p.Modes != nil && p.Modes.Row || p.Full || p.Wild {
		return
	}
	switch {
	case r.IntN(10) == 0 && !p.rollsBack():
		p.overtakenGreetings(r)
	case p.FaultRates != (FaultRates{}) && r.IntN(2) == 0:
		p.FaultRates.Late = 0.3 * r.Float64()
	}
}

// overtakenGreetings makes a world of sessions that outlive take-overs, of connections
// that break and come back, and of active servers that fall silent. A greeting may
// reach a server after it has taken over, while its client still waits for the previous
// server.
func (p *Plan) overtakenGreetings(r *rand.Rand) {
	p.Servers, p.ActiveTTL, p.ActiveTTLs = 2+r.IntN(2), time.Second, nil
	for len(p.Drifts) < p.Servers+len(p.Clients)+len(p.Unary) {
		p.Drifts = append(p.Drifts, Drift{})
	}
	p.FaultRates = FaultRates{Cut: 0.01 + 0.04*r.Float64(), Late: 0.3 + 0.5*r.Float64()}
	for i := range p.Clients {
		c := &p.Clients[i]
		c.TTL, c.Writes = between(r, 8*time.Second, 15*time.Second).Round(time.Millisecond), c.Writes+8
	}
	p.Faults = nil
	for at := between(r, 3*time.Second, 6*time.Second); at < p.FaultsEnd-time.Second; at += between(r, 2*time.Second, 6*time.Second) {
		p.Faults = append(p.Faults, Fault{
			Kind: pick(r, CutServer, PauseServer, SuspendServer, StopServer), Target: activeServer, At: at,
			For: between(r, 1500*time.Millisecond, 5*time.Second),
		})
	}
}
