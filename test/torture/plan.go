package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// moment is a time of the boot clock, or since the run began.
type moment = time.Duration

// world is what runs where. Each node is a network namespace with one process.
type world struct {
	members, servers, workers []string
}

// worldOf is the world of a store.
func worldOf(store string) (world, error) {
	workers := []string{"w1", "w2"}
	switch store {
	case storeQuorum:
		m := []string{"m1", "m2", "m3"}
		return world{members: m, servers: m, workers: workers}, nil
	case storeEtcd:
		return world{members: []string{"e1", "e2", "e3"}, servers: []string{"s1", "s2", "s3"}, workers: workers}, nil
	}
	return world{}, fmt.Errorf("the store is %q: %s or %s was expected", store, storeQuorum, storeEtcd)
}

const (
	storeQuorum = "quorum"
	storeEtcd   = "etcd"
)

// cell are the nodes of the cell itself.
func (w world) cell() []string {
	all := slices.Clone(w.members)
	for _, s := range w.servers {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func (w world) nodes() []string { return append(w.cell(), w.workers...) }

type kind string

const (
	cut    kind = "cut"     // nothing passes between A and B
	oneWay kind = "one way" // nothing passes from A to B
	flap   kind = "flap"    // a cut that comes and goes
	loss   kind = "loss"    // packets between A and B get lost
	delay  kind = "delay"   // what A has to do with B takes longer
	stop   kind = "stop"    // the processes of A are stopped and go on
	kill   kind = "kill"    // they are killed and started again
	full   kind = "full"    // the disk of A is full
)

var kinds = []kind{cut, oneWay, flap, loss, delay, stop, kill, full}

// active stands for the server that is active when the fault begins.
const active = "active"

// fault is what is done to nodes, from a moment of the run on and for how long.
type fault struct {
	kind    kind
	at, dur moment
	a, b    []string
	percent int           // of packets that get lost
	late    time.Duration // one way
	period  time.Duration // of a flap
}

func (f fault) String() string {
	s := fmt.Sprintf("%s %s", f.kind, strings.Join(f.a, ","))
	if len(f.b) > 0 {
		s += " | " + strings.Join(f.b, ",")
	}
	switch f.kind {
	case loss:
		s += fmt.Sprintf(" %d%%", f.percent)
	case delay:
		s += fmt.Sprintf(" %v", f.late)
	case flap:
		s += fmt.Sprintf(" each %v", f.period)
	}
	return fmt.Sprintf("%s for %v", s, f.dur)
}

const (
	// calmFirst and calmLast are without faults: the load starts, and all is to be well
	// again.
	calmFirst, calmLast = 2 * time.Second, 10 * time.Second
	faultMin, faultMost = 800 * time.Millisecond, 6500 * time.Millisecond
	pauseMost           = 2500 * time.Millisecond
)

// plan is the schedule of faults of a run: the same for the same seed.
func plan(w world, seed uint64, run time.Duration) []fault {
	p := planner{world: w, Rand: rand.New(rand.NewPCG(seed, 13))}
	var all []fault
	var next []kind
	for at := calmFirst; ; {
		// Every kind comes once before one comes twice.
		if len(next) < 2 {
			more := slices.Clone(kinds)
			p.Shuffle(len(more), func(i, j int) { more[i], more[j] = more[j], more[i] })
			next = append(next, more...)
		}
		n := 1 + p.IntN(2)
		end := at
		var episode []fault
		for _, k := range next[:n] {
			f := p.fault(k)
			f.at = at + p.upTo(time.Second)
			end = max(end, f.at+f.dur)
			episode = append(episode, f)
		}
		if end > run-calmLast {
			return all
		}
		next = next[n:]
		if n == 2 && clash(episode[0], episode[1]) {
			episode = episode[:1]
		}
		all = append(all, episode...)
		at = end + p.upTo(pauseMost)
	}
}

// clash reports whether two faults may end up with the same process or disk.
func clash(f, g fault) bool {
	process := func(k kind) bool { return k == stop || k == kill || k == full }
	if !process(f.kind) || !process(g.kind) {
		return false
	}
	return f.a[0] == active || g.a[0] == active || slices.ContainsFunc(f.a, func(n string) bool { return slices.Contains(g.a, n) })
}

type planner struct {
	world
	*rand.Rand
}

func (p *planner) upTo(d time.Duration) time.Duration {
	return time.Duration(p.Int64N(int64(d))).Truncate(time.Millisecond)
}

func (p *planner) pick(from []string) string { return from[p.IntN(len(from))] }

// fault makes one of a kind.
func (p *planner) fault(k kind) fault {
	f := fault{kind: k, dur: faultMin + p.upTo(faultMost-faultMin)}
	switch k {
	case stop, kill:
		f.a = p.processes()
		if k == kill {
			f.dur = p.upTo(4*time.Second) + 50*time.Millisecond // until it is started again
		}
	case full:
		f.a = []string{p.pick(p.members)}
	case loss:
		f.percent = 3 + p.IntN(35)
		f.a, f.b = p.sides()
	case delay:
		f.late = 5*time.Millisecond + p.upTo(75*time.Millisecond)
		f.a, f.b = p.sides()
	case flap:
		f.period = 300*time.Millisecond + p.upTo(1500*time.Millisecond)
		f.a, f.b = p.sides()
	default:
		f.a, f.b = p.sides()
		if k == oneWay && p.IntN(2) == 0 {
			f.a, f.b = f.b, f.a
		}
	}
	return f
}

// processes are one or two to be stopped or killed.
func (p *planner) processes() []string {
	switch p.IntN(8) {
	case 0, 1:
		return []string{active}
	case 2:
		return []string{p.pick(p.workers)}
	case 3: // a majority, or a server and a member
		c := p.cell()
		p.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
		return c[:2]
	default:
		return []string{p.pick(p.cell())}
	}
}

// sides are two groups of nodes to be separated.
func (p *planner) sides() (a, b []string) {
	rest := func(without ...string) []string {
		return slices.DeleteFunc(p.nodes(), func(n string) bool { return slices.Contains(without, n) })
	}
	switch p.IntN(8) {
	case 0, 1: // the active server alone; the runner takes it from b
		return []string{active}, p.nodes()
	case 2: // a worker and some servers
		return []string{p.pick(p.workers)}, p.servers[:1+p.IntN(len(p.servers))]
	case 3: // one link in the cell
		c := p.cell()
		p.Shuffle(len(c), func(i, j int) { c[i], c[j] = c[j], c[i] })
		return c[:1], c[1:2]
	case 4: // the active server, from the rest of the cell alone
		return []string{active}, p.cell()
	case 5: // one from the rest of the cell
		n := p.pick(p.cell())
		return []string{n}, slices.DeleteFunc(p.cell(), func(o string) bool { return o == n })
	case 6: // every member from every other: there is no majority
		return p.members[:2], p.members[1:]
	default: // one from everybody
		n := p.pick(p.cell())
		return []string{n}, rest(n)
	}
}

// resolve puts the active server in the place of its name; ok is false when the fault
// needs one and there is none.
func (f fault) resolve(server string) (fault, bool) {
	if !slices.Contains(f.a, active) && !slices.Contains(f.b, active) {
		return f, true
	}
	side := func(nodes []string) []string {
		if slices.Contains(nodes, active) {
			return []string{server}
		}
		return slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == server })
	}
	f.a, f.b = side(f.a), side(f.b)
	return f, server != ""
}

// turn is the beginning or the end of a fault, or of one beat of a flap.
type turn struct {
	at    moment
	fault int
	on    bool
	// first and last are the fault's own beginning and end.
	first, last bool
}

// turns are those of a plan, in their order.
func turns(plan []fault) []turn {
	var all []turn
	for i, f := range plan {
		all = append(all, turn{at: f.at, fault: i, on: true, first: true})
		if f.kind == flap {
			for at, on := f.at+f.period/2, false; at < f.at+f.dur; at, on = at+f.period/2, !on {
				all = append(all, turn{at: at, fault: i, on: on})
			}
		}
		all = append(all, turn{at: f.at + f.dur, fault: i, last: true})
	}
	slices.SortStableFunc(all, func(a, b turn) int { return int(a.at - b.at) })
	return all
}
