package objguard_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

// everySchedule calls run with each schedule of a length.
func everySchedule(length int, run func(buckettest.Schedule)) {
	s := make(buckettest.Schedule, length)
	for {
		run(s)
		i := 0
		for ; i < length; i++ {
			if s[i]++; s[i] < buckettest.Happenings {
				break
			}
			s[i] = 0
		}
		if i == length {
			return
		}
	}
}

// Every way in which up to three writes of an old holder are lost, left unanswered, late
// and repeated, with writes of others at each of them; then longer ones at random.
func TestEverySchedule(t *testing.T) {
	for kind := range buckettest.Lists(objguard.Guard{}, nil) {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outcomes := map[string]int{}
				try := func(s buckettest.Schedule) {
					b := &buckettest.Memory{}
					p := buckettest.Play(t.Context(), b, "g", b, kind, "orders/7", s, 4)
					if err := p.Judge(); err != nil {
						t.Fatalf("schedule %v: %v", s, err)
					}
					for _, err := range p.Told {
						outcomes[outcome(err)]++
					}
				}
				everySchedule(3, try)
				rnd := rand.New(rand.NewPCG(1, 2))
				for range 1000 {
					s := make(buckettest.Schedule, 12)
					for i := range s {
						s[i] = buckettest.Fate(rnd.IntN(int(buckettest.Happenings)))
					}
					try(s)
				}
				// A test that does not reach an outcome shows nothing of it.
				for _, o := range []string{"done", "stale", "unknown"} {
					if outcomes[o] == 0 {
						t.Errorf("no write was %s: %v", o, outcomes)
					}
				}
				t.Log(outcomes)
			})
		})
	}
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, guard.ErrStale):
		return "stale"
	case errors.Is(err, guard.ErrUnknown):
		return "unknown"
	}
	return "failed"
}
