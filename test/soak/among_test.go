package main

import (
	"strings"
	"testing"
	"time"
)

// What a run prints at its end is what its pauses were, beside their limits.
func TestPausesBesideTheirLimits(t *testing.T) {
	var out strings.Builder
	s := &soak{out: &out, pauses: map[manner][]time.Duration{}}
	for i := 200; i > 0; i-- {
		s.pauses[killOther] = append(s.pauses[killOther], time.Duration(i)*5*time.Millisecond)
	}
	s.pauses[stopActive] = []time.Duration{300 * time.Millisecond}
	s.showPauses()
	const want = `to the next grant, member that does not lead killed: 200 times, p50 500ms, p99 990ms, max 1s; 100 over the limit of 500ms
to the next grant, active server stopped cleanly: 1 times, p50 300ms, p99 300ms, max 300ms; 0 over the limit of 300ms
`
	if out.String() != want {
		t.Errorf("it printed\n%s; expected\n%s", &out, want)
	}
}

// The closing line of growth has what was lost and the pauses of every step.
func TestGrowthShowsItsFigures(t *testing.T) {
	g := &growth{runs: 3, lost: 1, leases: 2, pauses: map[step][]time.Duration{
		stepThree: {3 * time.Second, time.Second, 2 * time.Second},
	}}
	var out strings.Builder
	g.show(&out)
	const want = "growth: 3 runs lost: 1 leases lost: 2 repeated tokens: 0 revived: 0; without a grant, grows to three: p50 2s, max 3s; limits: p50 2s, max 4s\n"
	if out.String() != want {
		t.Errorf("it printed %q, expected %q", out.String(), want)
	}
}
