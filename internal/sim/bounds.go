package sim

import (
	"math/rand/v2"

	"github.com/pawlproject/pawl/internal/step"
)

// drawBounds gives the servers of some worlds bounds so low that many a turn needs
// several batches, expiry several turns, and acquires wait in the intake.
func drawBounds(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeBounds))
	if r.IntN(6) > 0 {
		return
	}
	p.Bounds = step.TurnBounds{Events: 1 + r.IntN(5), Bytes: pick(r, 150, 400, 1<<20), Portion: pick(r, 1, 3, 1000)}
}

// drawOneWay has streams of some worlds lose what goes one way, and that alone.
func drawOneWay(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeOneWay))
	if p.FaultRates == (FaultRates{}) || r.IntN(4) > 0 {
		return
	}
	if r.IntN(3) > 0 {
		p.FaultRates.LoseUp = 0.02 * r.Float64()
	}
	if r.IntN(3) > 0 {
		p.FaultRates.LoseDown = 0.02 * r.Float64()
	}
}
