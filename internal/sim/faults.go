package sim

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Fault is one thing that goes wrong, at a time and for a while.
type Fault struct {
	Kind    Kind
	At, For time.Duration
	// Target is the number of the server or client that it hits; activeServer:
	// the server that is active then.
	Target int
}

const (
	activeServer = -1
	aRider       = -1
)

// Kind of a fault.
type Kind uint8

// The kinds.
const (
	// PauseServer stops a server's process; SuspendServer its machine, so that
	// raw time stands still as well.
	PauseServer Kind = iota
	SuspendServer
	// CrashServer kills a server, which comes back after a while; StopServer has
	// it resign first.
	CrashServer
	StopServer
	// CutServer takes a server's way to the store, IsolateServer its clients' way
	// to it.
	CutServer
	IsolateServer
	// StoreDown: nothing reaches the store. StoreFull: it takes no writes.
	StoreDown
	StoreFull
	// RollBack sets the store back to what it was For ago; with another Target
	// than 0, to what it was just before a write of the kind saveBefore.
	RollBack
	// PauseClient, SuspendClient, CrashClient do to a client what those above do
	// to a server. A client that comes back from a crash has forgotten all.
	PauseClient
	SuspendClient
	CrashClient
	// PauseUnary and CrashUnary hit a caller without a stream.
	PauseUnary
	CrashUnary
	// Break asks a name's holder to let go.
	Break
	// ForceBreak ends the lease of a name's holder.
	ForceBreak
	// StoreTight: the store has little room left.
	StoreTight
	// CutClient takes a client's way to every server; with aRider as its Target, that of
	// one who holds a lease that may ride.
	CutClient
	// MoveResource has the resource of a name be held to another cell from then on.
	MoveResource
)

var kindNames = [...]string{
	"pause server", "suspend server", "crash server", "stop server", "cut server from the store",
	"isolate server", "store down", "store full", "roll the store back", "pause client", "suspend client",
	"crash client", "pause unary client", "crash unary client", "break a lease",
	"break a lease at once", "store tight", "cut client from the servers", "move the resource to another cell",
}

func (k Kind) String() string { return kindNames[k] }

func (f Fault) String() string {
	return fmt.Sprintf("%v %d at %.3fs for %.3fs", f.Kind, f.Target+1, f.At.Seconds(), f.For.Seconds())
}

// drawFaults has one roll-back in every fifth world or so, and otherwise a few
// faults of a few kinds: too many at once hide each other.
func drawFaults(r *rand.Rand, p *Plan) []Fault {
	var liked []Kind
	for range 1 + r.IntN(4) {
		if k := Kind(r.IntN(int(ForceBreak))); k != RollBack {
			liked = append(liked, k)
		}
	}
	if r.IntN(3) > 0 {
		liked = append(liked, pick(r, PauseServer, CrashServer, CutServer, StopServer, SuspendServer))
	}
	if r.IntN(5) == 0 {
		liked = append(liked, RollBack, RollBack)
	}
	var all []Fault
	rolled := false
	for range 1 + r.IntN(14) {
		if len(liked) == 0 {
			break
		}
		f := Fault{Kind: liked[r.IntN(len(liked))], At: between(r, time.Second, p.FaultsEnd-time.Second)}
		switch f.Kind {
		case PauseServer, SuspendServer, CrashServer, StopServer, CutServer, IsolateServer:
			f.Target = r.IntN(p.Servers)
		case PauseClient, SuspendClient, CrashClient:
			f.Target = r.IntN(len(p.Clients))
		case PauseUnary, CrashUnary:
			if len(p.Unary) == 0 {
				continue
			}
			f.Target = r.IntN(len(p.Unary))
		case Break:
			f.Target = r.IntN(p.Names)
		case RollBack:
			if rolled {
				continue
			}
			rolled = true
			f.Target = r.IntN(len(saveBefore))
		}
		// Most faults are short against a TTL or long against it.
		f.For = between(r, 50*time.Millisecond, 1500*time.Millisecond)
		if r.IntN(2) == 0 {
			f.For = between(r, time.Second, 8*time.Second)
		}
		if f.Kind == RollBack && r.IntN(2) == 0 {
			f.For = between(r, time.Millisecond, 300*time.Millisecond)
		}
		f.For = min(f.For, p.FaultsEnd-f.At)
		all = append(all, f)
	}
	return all
}

// strike makes a fault happen and has it mended after its time.
func (w *World) strike(f Fault) {
	if f.Target == activeServer && f.Kind <= IsolateServer {
		s := w.active()
		if s == nil {
			return
		}
		f.Target = s.id
	}
	w.note("fault", "%v", f)
	until := func(undo func()) { w.at(w.now+f.For, undo) }
	switch f.Kind {
	case PauseServer:
		w.freeze(&w.servers[f.Target].process, f.For)
	case SuspendServer:
		w.suspend(&w.servers[f.Target].process, f.For)
	case CrashServer:
		w.servers[f.Target].crash(f.For)
	case StopServer:
		w.servers[f.Target].resign(f.For)
	case CutServer:
		s := w.servers[f.Target]
		s.cut = true
		until(func() { s.cut = false })
	case IsolateServer:
		s := w.servers[f.Target]
		s.isolated = true
		until(func() { s.isolated = false })
	case StoreDown:
		w.disk.down = true
		until(func() { w.disk.down, w.disk.upSince = false, w.now })
	case StoreFull:
		w.disk.fill(true)
		until(func() { w.disk.fill(false) })
	case StoreTight:
		w.disk.tight = true
		until(func() { w.disk.tight = false })
	case CutClient:
		c := w.clientOf(f.Target)
		if f.Target == aRider {
			c = w.aRider()
		}
		if c != nil {
			c.cutOff = true
			until(func() { c.cutOff = false })
		}
	case MoveResource:
		w.resource(fmt.Sprintf("n%d", f.Target+1)).move()
	case RollBack:
		w.disk.rollBackSoon(f)
	case PauseClient, SuspendClient, CrashClient:
		if c := w.clientOf(f.Target); c != nil {
			w.hit(f, &c.process, c.crash)
		}
	case PauseUnary, CrashUnary:
		if c := w.callerOf(f.Target); c != nil {
			w.hit(f, &c.process, c.crash)
		}
	case Break, ForceBreak:
		w.breakLease(fmt.Sprintf("n%d", f.Target+1), f.Kind == ForceBreak)
	}
}

// hit does to a client what its fault says.
func (w *World) hit(f Fault, p *process, crash func(time.Duration)) {
	switch f.Kind {
	case PauseClient, PauseUnary:
		w.freeze(p, f.For)
	case SuspendClient:
		w.suspend(p, f.For)
	default:
		crash(f.For)
	}
}

// mend ends every fault for good.
func (w *World) mend() {
	w.note("world", "faults are over")
	w.faultsOver = true
	w.disk.down, w.disk.upSince = false, w.now
	w.disk.fill(false)
	w.disk.tight = false
	for _, s := range w.servers {
		s.cut, s.isolated = false, false
	}
	for _, c := range w.clients {
		c.cutOff = false
	}
}

func (w *World) freeze(p *process, d time.Duration) {
	p.stalls = append(p.stalls, stall{max(p.frozen, w.now), w.now + d})
	p.frozen = max(p.frozen, w.now+d)
}

func (w *World) suspend(p *process, d time.Duration) {
	p.clock.suspend(w.now, d)
	w.freeze(p, d)
}

// faultRates is what it is until the faults are over.
func (w *World) faultRates() FaultRates {
	if w.faultsOver {
		return FaultRates{}
	}
	return w.plan.FaultRates
}
