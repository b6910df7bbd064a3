package sim

import (
	"math/rand/v2"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

// Rides says how often the leases of a world claim, and ride through outages. A holder that
// claims raises the mark of its guard before it reads. One that does not reads at once, and
// only its writes show its token.
type Rides struct {
	// Claim is the chance that an acquire claims, Ride the chance that it asks for a
	// ride-through where it can have one.
	Claim, Ride float64
	// Least and Most bound the ride-through.
	Least, Most time.Duration
	// Unread is the chance that a guard that is asked for its mark fails, or gives no
	// answer; Late that it takes up to 3 s.
	Unread, Late float64
	// Clean: nothing goes wrong but that the store is down, for less than Least. Every
	// lease that rides goes on, under its token, soon after.
	Clean bool
}

// drawRides has leases ride in some worlds: among the faults that were drawn, through
// outages and nothing else, while their holders are cut off from servers that serve
// others, or through take-overs in a row.
func drawRides(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeRides))
	if r.IntN(4) > 0 || p.Full || p.Modes != nil && p.Modes.Row {
		return
	}
	x := &Rides{Claim: pick(r, 0.5, 0.7, 0.9), Ride: pick(r, 0.5, 1), Least: 3 * time.Second}
	x.Most = pick(r, 6*time.Second, 15*time.Second, 40*time.Second)
	if r.IntN(2) == 0 {
		x.Unread, x.Late = 0.5*r.Float64(), 0.3*r.Float64()
	}
	p.Rides = x
	if !p.Wild {
		p.FaultsEnd += 10 * time.Second
		p.Stop, p.End = p.FaultsEnd+6*time.Second, p.FaultsEnd+66*time.Second
	}
	for len(p.Clients) < 2 {
		p.Clients = append(p.Clients, drawClient(r, len(p.Clients)))
	}
	if p.Modes == nil {
		p.Modes = &Modes{Slots: make([]uint32, p.Names)}
	}
	for i := range p.Clients {
		c := &p.Clients[i]
		c.Writes += 10 + r.IntN(30)
		c.Eager = true
		if r.IntN(3) > 0 {
			c.TTL = between(r, time.Second, 2500*time.Millisecond).Round(time.Millisecond)
		}
	}
	if !p.Wild && !p.rollsBack() {
		switch r.IntN(6) {
		case 0:
			p.outages(r)
		case 1:
			p.takeOversOfRiders(r)
		}
	}
	if !x.Clean {
		p.cutOffs(r)
	}
	for i := range p.Quiet {
		q := &p.Quiet[i]
		if q.Claims = r.IntN(2) == 0; q.Claims && q.Mode != locktable.Shared && len(q.Names) == 1 && r.IntN(2) == 0 {
			q.Ride = between(r, x.Least, min(x.Most, 5*time.Second))
		}
	}
	p.End += 2 * x.Most
}

// outages makes a world in which the store is down for longer than sessions live, and
// nothing else goes wrong.
func (p *Plan) outages(r *rand.Rand) {
	p.Hasty, p.FaultRates, p.Faults, p.WallSteps = false, FaultRates{}, nil, nil
	p.Rides.Clean, p.Rides.Unread, p.Rides.Late = true, 0, 0
	for i := range p.Clients {
		p.Clients[i].Restless = false
		p.Clients[i].TTL = between(r, time.Second, 3*time.Second)
	}
	for at := between(r, 2*time.Second, 5*time.Second); at < p.FaultsEnd-2*time.Second; {
		d := min(between(r, 2*time.Second, 9*time.Second), p.FaultsEnd-at)
		p.Faults = append(p.Faults, Fault{Kind: StoreDown, At: at, For: d})
		at += d + between(r, 4*time.Second, 10*time.Second)
	}
	p.Rides.Least, p.Rides.Most = 20*time.Second, 40*time.Second
}

// takeOversOfRiders makes a world of tenures that are short against the time for which
// riders leave names claim-only.
func (p *Plan) takeOversOfRiders(r *rand.Rand) {
	p.Servers, p.ActiveTTL, p.ActiveTTLs = 2+r.IntN(2), time.Second, nil
	for len(p.Drifts) < p.Servers+len(p.Clients)+len(p.Unary) {
		p.Drifts = append(p.Drifts, Drift{})
	}
	p.Rides.Least, p.Rides.Most = 5*time.Second, 15*time.Second
	p.Faults = nil
	for at := between(r, 4*time.Second, 6*time.Second); at < p.FaultsEnd-time.Second; at += between(r, 3*time.Second, 6*time.Second) {
		p.Faults = append(p.Faults, Fault{Kind: pick(r, StopServer, CutServer, CrashServer), Target: activeServer, At: at, For: between(r, 100*time.Millisecond, 2*time.Second)})
	}
}

// cutOffs has clients lose their way to every server, while others have it; has leases be
// broken by force meanwhile; and in rare worlds has a resource be held to another cell.
func (p *Plan) cutOffs(r *rand.Rand) {
	for range 3 + r.IntN(9) {
		f := Fault{Kind: CutClient, Target: pick(r, aRider, aRider, p.Clients[r.IntN(len(p.Clients))].ID), At: between(r, time.Second, p.FaultsEnd-2*time.Second)}
		f.For = min(between(r, 3*time.Second, 15*time.Second), p.FaultsEnd-f.At)
		p.Faults = append(p.Faults, f)
		if r.IntN(3) == 0 {
			p.Faults = append(p.Faults, Fault{Kind: ForceBreak, At: f.At + between(r, 0, f.For), Target: r.IntN(p.Names)})
		}
	}
	if r.IntN(4) == 0 {
		p.Faults = append(p.Faults, Fault{Kind: MoveResource, Target: r.IntN(p.Names), At: between(r, p.FaultsEnd/2, p.FaultsEnd)})
	}
}

// aRider is a client that holds a lease that may ride; nil: there is none.
func (w *World) aRider() *client {
	for _, c := range w.clients {
		for _, l := range c.leases {
			if l.ride > 0 && !l.releasing {
				return c
			}
		}
	}
	return nil
}

// mistaken is the chance that a lease that may not ride is asked to. It is refused.
const mistaken = 0.03

// rides draws whether an acquire claims, and for how long its lease may ride.
func (p *Plan) rides(r *rand.Rand, a *acquireSpec) {
	x := p.Rides
	if x == nil {
		return
	}
	a.claims = chance(r, x.Claim)
	may := a.claims && a.mode != locktable.Shared && len(a.names) == 1
	if chance(r, x.Ride) && (may || chance(r, mistaken)) {
		a.ride = between(r, x.Least, x.Most)
	}
}

// claimsFirst reports whether a holder raises the marks of its guards before it reads.
// Where no acquire says so, all do.
func (w *World) claimsFirst(l *lease) bool { return w.plan.Rides == nil || l.claims }
