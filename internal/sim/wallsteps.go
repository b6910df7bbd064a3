package sim

import (
	"math/rand/v2"
	"time"
)

// WallStep sets the wall clock of a server, and of all with Server allServers, by so
// much: somebody corrects it, or makes it wrong.
type WallStep struct {
	Server int
	At, By time.Duration
}

const allServers = -1

// drawWallSteps makes wall clocks jump forward and back in some worlds. Where the store
// is set back they all jump forward together, since rising tokens are promised only if
// no wall clock is behind that of the lost grants (I1).
func drawWallSteps(p *Plan) {
	r := rand.New(rand.NewPCG(p.Seed, purposeWallSteps))
	if r.IntN(6) > 0 {
		return
	}
	for range 1 + r.IntN(4) {
		x := WallStep{Server: r.IntN(p.Servers), At: between(r, 0, p.FaultsEnd)}
		x.By = pick(r, between(r, 0, 2*time.Second), between(r, 0, 2*time.Hour))
		switch {
		case p.rollsBack():
			x.Server = allServers
		case r.IntN(2) == 0:
			x.By = -x.By
		}
		p.WallSteps = append(p.WallSteps, x)
	}
}

// stepWall sets wall clocks.
func (w *World) stepWall(x WallStep) {
	w.note("fault", "the wall clock of server %d (0: all) is set by %v", x.Server+1, x.By)
	for _, s := range w.servers {
		if x.Server == allServers || x.Server == s.id {
			s.clock.stepped += x.By
		}
	}
}
