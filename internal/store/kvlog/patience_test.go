package kvlog

import (
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

func TestPatience(t *testing.T) {
	const (
		look = iota
		miss
		beat
		claim
	)
	for name, steps := range map[string][]struct {
		after time.Duration
		what  int
		want  time.Duration
	}{
		"counts what it watched": {
			{0, look, 0},
			{100 * time.Millisecond, look, 100 * time.Millisecond},
			{100 * time.Millisecond, look, 200 * time.Millisecond},
		},
		"a sign of life begins anew": {
			{0, look, 0},
			{200 * time.Millisecond, look, 200 * time.Millisecond},
			{100 * time.Millisecond, beat, 0},
			{100 * time.Millisecond, look, 100 * time.Millisecond},
		},
		"so does another tenure": {
			{0, look, 0},
			{200 * time.Millisecond, look, 200 * time.Millisecond},
			{100 * time.Millisecond, claim, 0},
		},
		"a pause counts for one share": {
			{0, look, 0},
			{time.Hour, look, shareMax},
			{100 * time.Millisecond, look, shareMax + 100*time.Millisecond},
		},
		"an outage does not count": {
			{0, look, 0},
			{100 * time.Millisecond, look, 100 * time.Millisecond},
			{100 * time.Millisecond, miss, 0},
			{100 * time.Millisecond, miss, 0},
			{100 * time.Millisecond, look, 200 * time.Millisecond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p patience
			var now clock.Reading
			tenure, life := int64(1), int64(0)
			for i, s := range steps {
				now = now.Add(s.after)
				switch s.what {
				case miss:
					p.miss(now)
					continue
				case beat:
					life++
				case claim:
					tenure++
				}
				if got := p.observe(now, tenure, life); got != s.want {
					t.Errorf("step %d: waited %v, want %v", i, got, s.want)
				}
			}
		})
	}
}

// A clock that goes back gives nothing.
func TestClockGoingBackAddsNoPatience(t *testing.T) {
	var p patience
	p.observe(clock.Reading{Boot: time.Hour, Raw: time.Hour}, 1, 1)
	if got := p.observe(clock.Reading{}, 1, 1); got != 0 {
		t.Errorf("waited %v", got)
	}
	// Suspended: boot time runs, raw time does not; a server counts the less.
	p = patience{}
	p.observe(clock.Reading{}, 1, 1)
	if got := p.observe(clock.Reading{Boot: time.Hour, Raw: time.Millisecond}, 1, 1); got != time.Millisecond {
		t.Errorf("waited %v", got)
	}
}
