package main

import (
	"slices"
	"time"
)

// plan is how much is measured.
type plan struct {
	callers []int
	waiters int
	// many is how many clients of one caller each there are.
	many   int
	rounds int
	warm   time.Duration
	span   time.Duration
	// warmUpSpan is run on every side before the first round.
	warmUpSpan time.Duration
	// profiled is how long profiles are taken.
	profiled time.Duration
	// kills is how often a server is killed.
	kills int
	// sessions over connections, each renewing a TTL of sessionsTTL.
	sessions, connections int
	// leases are held by holders clients.
	leases, holders int
	// takeOvers is how often the active server over these leases ends in each way while
	// a standby follows it.
	takeOvers int
	// settle is waited for, steady is measured, where a state is looked at.
	settle, steady time.Duration
}

// sessionsTTL is that of the many sessions: the default.
const sessionsTTL = 15 * time.Second

// quickPlan takes about two minutes.
var quickPlan = plan{
	callers: []int{1, 16, 64, 256}, waiters: 16, rounds: 3,
	warm: 400 * time.Millisecond, span: 2900 * time.Millisecond, profiled: 3 * time.Second,
}

// fullPlan at its greatest; fit makes it smaller.
var fullPlan = plan{
	callers: []int{1, 16, 64, 256}, waiters: 16, many: 64, rounds: 7,
	warm: 500 * time.Millisecond, span: 3 * time.Second, warmUpSpan: 3 * time.Second,
	profiled: 20 * time.Second, kills: 50,
	sessions: 10_000, connections: 100, leases: 1_000_000, holders: 100, takeOvers: 5,
	settle: 20 * time.Second, steady: 40 * time.Second,
}

// smoke is a plan at a hundredth, which shows that everything runs. Its numbers
// say nothing.
func (p plan) smoke() plan {
	p.rounds, p.kills = 1, 2
	p.warm, p.span, p.warmUpSpan, p.profiled = 100*time.Millisecond, 400*time.Millisecond, 300*time.Millisecond, time.Second
	p.sessions, p.connections, p.leases, p.holders, p.takeOvers = 200, 10, 10_000, 10, 1
	p.settle, p.steady = time.Second, 6*time.Second
	return p
}

// fit shrinks a plan until rows take no longer than budget: first the rounds to
// three, then the kills to twenty, then both to the least. It says how long
// what it returns takes, which may be longer.
func (p plan) fit(rows []row, budget time.Duration) (plan, time.Duration) {
	for _, size := range []struct{ rounds, kills int }{{7, 50}, {5, 50}, {3, 50}, {3, 20}, {3, 10}, {1, 5}} {
		p.rounds, p.kills = size.rounds, size.kills
		if p.cost(rows) <= budget {
			break
		}
	}
	return p, p.cost(rows)
}

func (p plan) cost(rows []row) (sum time.Duration) {
	for _, r := range rows {
		sum += r.cost(p)
	}
	return sum
}

// most is the greatest number of callers.
func (p plan) most() int { return slices.Max(p.callers) }
