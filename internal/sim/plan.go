package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawlproject/pawl/internal/step"
)

// Plan is all that is drawn before a world begins. A failure is made smaller by
// taking things out of it.
type Plan struct {
	Seed    uint64
	Servers int
	// ActiveTTL is how long a standby waits for a sign of the active server;
	// ActiveTTLs is that of each server where they differ, otherwise nil.
	ActiveTTL  time.Duration
	ActiveTTLs []time.Duration
	Names      int
	Clients    []ClientPlan
	Unary      []ClientPlan
	Faults     []Fault
	FaultRates FaultRates
	// FaultsEnd is when faults end, Stop when clients begin nothing new, End when
	// everybody must have been served.
	FaultsEnd, Stop, End time.Duration
	// Spread is how far the numbers of a client's unfinished requests may lie apart
	// before its waiters are renumbered; 0: as far as the SDK has it.
	Spread uint64
	// SnapshotEvery is how many batches lie between two snapshots.
	SnapshotEvery int
	// Drifts of servers and clients; all within what is promised for, unless a
	// test wants it otherwise.
	Drifts []Drift
	// Bounds of the servers' turns and batches; the zero value: those that ship.
	Bounds step.TurnBounds
	// WallSteps are when wall clocks of servers are set.
	WallSteps []WallStep
	// Quiet are requests for names that few others ask for.
	Quiet []Quiet
	// Hasty: all servers but the first count the time that they stand by three times,
	// and take over from one that lives.
	Hasty bool
	// Wild: clients' clocks drift beyond what is promised for. Then a holder may
	// believe in what it has lost (I5), and its guards must not (I6).
	Wild bool
	// Full: nothing goes wrong but that the store takes no writes for longer than a
	// session lives.
	Full bool
	// Follows: standbys follow the log; SlowFollows: so slowly that snapshots pass them.
	Follows, SlowFollows bool
	// Modes: nil when all locks are exclusive, of one name.
	Modes *Modes
	// Rides: nil when no acquire says that it claims.
	Rides *Rides
}

// ClientPlan is one client's character.
type ClientPlan struct {
	ID  int
	TTL time.Duration
	// Callers work side by side in one client.
	Callers int
	// Careless callers do not look at their deadline before they act.
	Careless bool
	// Fickle callers give up what they waited for when the stream comes back.
	Fickle bool
	// Eager callers hardly think between two leases.
	Eager bool
	// Writes at most under one lease.
	Writes int
	// Restless clients ask for another TTL now and then.
	Restless bool
	// ManyHolders: its callers all want a slot of the first name, and hold it for long.
	ManyHolders bool
	// HangsUp: without a stream, it cuts connections on which it waits for its turn.
	HangsUp bool
}

// FaultRates is how bad network and store are while they are bad; every field is
// the chance of one message or transaction.
type FaultRates struct {
	// LoseRequest and LoseAnswer of the store; Repeat lands a write once more,
	// up to 20 s later; SlowStore holds either way for up to 1.2 s.
	LoseRequest, LoseAnswer, Repeat, SlowStore float64
	// Cut breaks a stream, Swallow makes it a hole that tells nobody.
	Cut, Swallow float64
	// Late has a greeting take up to 8 s, as what is sent again and again may.
	Late float64
	// LoseUp has the server hear nothing more on a stream that the client still hears,
	// LoseDown the client on one that the server still hears.
	LoseUp, LoseDown float64
	// Lose and Double a message that is not on a stream; Slow delays any message
	// for up to 3 s.
	Lose, Double, Slow float64
}

// purposes of streams of random numbers.
const (
	purposePlan uint64 = iota + 1
	purposeDisk
	purposeNetwork
	purposeModes
	purposeTTL
	purposeStores
	purposeActiveTTLs
	purposeFull
	purposeManyHolders
	purposeGreetings
	purposeBounds
	purposeWallSteps
	purposeOneWay
	purposeQuiet
	purposeHangUps
	purposeRides
	purposeFollows
	purposeServer     uint64 = 1000
	purposeClient     uint64 = 2000
	purposeUnary      uint64 = 3000
	purposeClientMood uint64 = 4000
	purposeUnaryMood  uint64 = 5000
	purposeClock      uint64 = 6000
	purposeHangUp     uint64 = 7000
)

// Draw makes the plan of a seed.
func Draw(seed uint64) Plan {
	r := rand.New(rand.NewPCG(seed, purposePlan))
	p := Plan{
		Seed: seed, Servers: 1 + r.IntN(3), ActiveTTL: time.Duration(1+r.IntN(3)) * time.Second, Names: 1 + r.IntN(2),
		FaultsEnd: between(r, 12*time.Second, 40*time.Second), SnapshotEvery: 5 + r.IntN(100),
	}
	if r.IntN(3) == 0 {
		p.SnapshotEvery = 2 + r.IntN(6)
	}
	p.Stop = p.FaultsEnd + 6*time.Second
	p.End = p.Stop + 60*time.Second
	for i := range 1 + r.IntN(4) {
		p.Clients = append(p.Clients, drawClient(r, i))
	}
	for i := range r.IntN(3) {
		p.Unary = append(p.Unary, drawClient(r, i))
	}
	p.FaultRates = drawFaultRates(r)
	drift := Drift{PPM: pick(r, 0, 100, 1000), Shape: Shape(r.IntN(int(shapes))), Step: between(r, time.Second, 30*time.Second)}
	p.Faults = drawFaults(r, &p)
	for range p.Servers + len(p.Clients) + len(p.Unary) {
		d := drift
		if !p.rollsBack() {
			d.Wall = between(r, -time.Minute, time.Minute)
		}
		p.Drifts = append(p.Drifts, d)
	}
	drawModes(&p)
	drawTTLs(&p)
	drawStores(&p)
	drawActiveTTLs(&p)
	drawFull(&p)
	drawManyHolders(&p)
	drawGreetings(&p)
	drawBounds(&p)
	drawWallSteps(&p)
	drawOneWay(&p)
	drawQuiet(&p)
	drawHangUps(&p)
	drawRides(&p)
	drawFollows(&p)
	return p
}

// drawActiveTTLs has servers of one cell differ in their active-ttl, in some worlds.
func drawActiveTTLs(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeActiveTTLs))
	if p.Servers < 2 || p.ActiveTTLs != nil || r.IntN(5) > 0 {
		return
	}
	for range p.Servers {
		p.ActiveTTLs = append(p.ActiveTTLs, pick(r, p.ActiveTTL, p.ActiveTTL/2, p.ActiveTTL*2))
	}
}

// longestActiveTTL is the longest that a server waits for the store.
func (p *Plan) longestActiveTTL() time.Duration {
	return slices.Max(append([]time.Duration{p.ActiveTTL}, p.ActiveTTLs...))
}

// activeTTL of a server.
func (p *Plan) activeTTL(server int) time.Duration {
	if server < len(p.ActiveTTLs) {
		return p.ActiveTTLs[server]
	}
	return p.ActiveTTL
}

// drawStores has writes land late, in some worlds with many snapshots, so that one
// is published while the next is taken; and it has some standbys be hasty.
func drawStores(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeStores))
	if p.SnapshotEvery < 8 && p.FaultRates != (FaultRates{}) && r.IntN(2) == 0 {
		p.SnapshotEvery = 2 + r.IntN(3)
		p.FaultRates.SlowStore, p.FaultRates.LoseRequest, p.FaultRates.Repeat = 0.1, 0.1, 0.9
		for i := range p.Clients {
			p.Clients[i].Eager = true
		}
	}
	p.Hasty = p.Servers > 1 && !p.rollsBack() && r.IntN(5) == 0
}

func drawClient(r *rand.Rand, id int) ClientPlan {
	return ClientPlan{
		ID: id, TTL: between(r, time.Second, 5*time.Second).Round(time.Millisecond), Callers: 1 + r.IntN(3),
		Careless: r.IntN(3) == 0, Fickle: r.IntN(2) == 0, Eager: r.IntN(2) == 0,
		Writes: 1 + r.IntN(3),
	}
}

// drawFaultRates has most kinds of trouble absent in most worlds, so that each is
// met alone as well.
func drawFaultRates(r *rand.Rand) FaultRates {
	some := func(most float64) float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return most * r.Float64()
	}
	return FaultRates{
		LoseRequest: some(0.1), LoseAnswer: some(0.15), Repeat: some(0.2), SlowStore: some(0.15),
		Cut: some(0.02), Swallow: some(0.01), Lose: some(0.2), Double: some(0.2), Slow: some(0.2),
	}
}

func (p *Plan) rollsBack() bool {
	for _, f := range p.Faults {
		if f.Kind == RollBack {
			return true
		}
	}
	return false
}

func (p *Plan) names() []string {
	var all []string
	for i := range p.Names {
		all = append(all, fmt.Sprintf("n%d", i+1))
	}
	return all
}

// drift of the i-th process; a plan made smaller keeps those of the others.
func (p *Plan) drift(i int) Drift {
	if i < len(p.Drifts) {
		return p.Drifts[i]
	}
	return Drift{}
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
