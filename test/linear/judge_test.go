package linear

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
)

// script makes a history by hand: calls and returns at the stamps that are said.
type script struct{ all []record }

func (s *script) add(v verb, o outcome, client int, m mode, token uint64, call, ret int64) *record {
	r := record{verb: v, outcome: o, client: client, mode: m, token: token, call: call, ret: ret}
	if v != verbClose && v != verbEnd && v != verbLost {
		r.name = "n"
	}
	if o == done && r.asks() {
		r.fence = token
	}
	s.all = append(s.all, r)
	return &s.all[len(s.all)-1]
}

// Histories that a lock cannot have are refused, each for one reason.
func TestInvalidHistoriesAreRefused(t *testing.T) {
	for what, write := range map[string]func(s *script){
		"two holders": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbAcquire, done, 2, exclusive, 6, 3, 4)
		},
		"two holders, one inside the other's deadline": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbAcquire, done, 2, exclusive, 6, 3, 4)
			s.add(verbDeadline, unknown, 1, exclusive, 5, 5, 5)
		},
		"granted before the release was called": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbAcquire, done, 2, exclusive, 6, 3, 4)
			s.add(verbRelease, done, 1, exclusive, 5, 5, 6)
		},
		"a token that goes back": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 6, 1, 2)
			s.add(verbRelease, done, 1, exclusive, 6, 3, 4)
			s.add(verbAcquire, done, 2, exclusive, 5, 5, 6)
		},
		"a token that goes back on another name": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 6, 1, 2)
			s.add(verbAcquire, done, 2, exclusive, 5, 5, 6).name = "m"
		},
		"one token twice": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 6, 1, 9)
			s.add(verbAcquire, done, 2, exclusive, 6, 2, 8).name = "m"
		},
		"a release that did not release": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbRelease, done, 1, exclusive, 5, 3, 4)
			s.add(verbTry, held, 2, exclusive, 5, 5, 6)
		},
		"a check that says gone, and the lease is released later": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbCheck, gone, 1, exclusive, 5, 3, 4)
			s.add(verbRelease, done, 1, exclusive, 5, 5, 6)
		},
		"a release that says gone, and the lease is held": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbRelease, gone, 1, exclusive, 5, 3, 4)
			s.add(verbTry, held, 2, exclusive, 5, 5, 6)
		},
		"a release under a close that says done, and the lease is held": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbClose, unknown, 1, exclusive, 0, 3, 6)
			s.add(verbRelease, done, 1, exclusive, 5, 4, 5)
			s.add(verbTry, held, 2, exclusive, 5, 7, 8)
		},
		"a check after the release": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbRelease, done, 1, exclusive, 5, 3, 4)
			s.add(verbCheck, done, 1, exclusive, 5, 5, 6)
		},
		"a release of what another had already been granted": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbDeadline, unknown, 1, exclusive, 5, 3, 3)
			s.add(verbAcquire, done, 2, exclusive, 6, 4, 5)
			s.add(verbRelease, done, 1, exclusive, 5, 6, 7)
		},
		"a check that says held after the next grant": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbRelease, unknown, 1, exclusive, 5, 3, 4)
			s.add(verbAcquire, done, 2, exclusive, 6, 5, 6)
			s.add(verbCheck, done, 1, exclusive, 5, 7, 8)
		},
		"held by a lease that nobody asked for": func(s *script) {
			s.add(verbTry, held, 2, exclusive, 5, 1, 2)
		},
		"a lease granted after its acquire was cancelled and its session closed": func(s *script) {
			s.add(verbAcquire, unknown, 1, exclusive, 0, 1, 2)
			s.add(verbClose, done, 1, exclusive, 0, 3, 4)
			s.add(verbTry, held, 2, exclusive, 5, 5, 6)
		},
		"a lease that outlives its closed session": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbClose, done, 1, exclusive, 0, 3, 4)
			s.add(verbTry, held, 2, exclusive, 5, 5, 6)
		},
		"a free name refused": func(s *script) {
			s.add(verbTry, held, 2, exclusive, 0, 1, 2)
		},
		"a reader beside a writer": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbAcquire, done, 2, shared, 6, 3, 4)
		},
		"a reader that raises the fence": func(s *script) {
			s.add(verbAcquire, done, 1, shared, 5, 1, 2)
			s.add(verbAcquire, done, 2, shared, 6, 3, 4)
		},
		"three on two slots": func(s *script) {
			s.add(verbAcquire, done, 1, slotted, 5, 1, 2).slot = 1
			s.add(verbAcquire, done, 2, slotted, 6, 3, 4).slot = 2
			s.add(verbAcquire, done, 3, slotted, 7, 5, 6).slot = 1
		},
		"one slot twice": func(s *script) {
			s.add(verbAcquire, done, 1, slotted, 5, 1, 2).slot = 1
			s.add(verbAcquire, done, 2, slotted, 6, 3, 4).slot = 1
		},
	} {
		s := &script{}
		write(s)
		if checked, lost, err := verdict(s.all, ""); err == nil {
			t.Errorf("%s: accepted (%d names, %d given up)", what, checked, lost)
		}
	}
}

// Histories that look wrong and are right.
func TestUnusualValidHistoriesPass(t *testing.T) {
	for what, write := range map[string]func(s *script){
		"handed over inside the release": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbAcquire, done, 2, exclusive, 6, 3, 6)
			s.add(verbRelease, done, 1, exclusive, 5, 5, 8)
			s.add(verbCheck, done, 2, exclusive, 6, 7, 9)
		},
		"granted after the deadline": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbDeadline, unknown, 1, exclusive, 5, 3, 3)
			s.add(verbTry, held, 2, exclusive, 5, 4, 5)
			s.add(verbAcquire, done, 2, exclusive, 6, 6, 7)
		},
		"a release that ended with an error took effect much later": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbRelease, unknown, 1, exclusive, 5, 3, 4)
			s.add(verbTry, held, 2, exclusive, 5, 5, 6)
			s.add(verbAcquire, done, 2, exclusive, 6, 7, 8)
		},
		"a release that ended with an error never took effect": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbRelease, unknown, 1, exclusive, 5, 3, 4)
			s.add(verbTry, held, 2, exclusive, 5, 5, 6)
		},
		"a cancelled acquire was granted and given back": func(s *script) {
			s.add(verbAcquire, unknown, 1, exclusive, 0, 1, 2)
			s.add(verbTry, held, 2, exclusive, 5, 3, 4)
			s.add(verbAcquire, done, 2, exclusive, 6, 5, 6)
		},
		"the same under a close that was not confirmed": func(s *script) {
			s.add(verbAcquire, unknown, 1, exclusive, 0, 1, 2)
			s.add(verbClose, unknown, 1, exclusive, 0, 3, 4)
			s.add(verbTry, held, 2, exclusive, 5, 5, 6)
		},
		"refused by a waiter": func(s *script) {
			s.add(verbAcquire, unknown, 1, exclusive, 0, 1, 2)
			s.add(verbTry, held, 2, exclusive, 0, 3, 4)
		},
		"a check that says gone after the deadline": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbDeadline, unknown, 1, exclusive, 5, 3, 3)
			s.add(verbCheck, gone, 1, exclusive, 5, 4, 5)
		},
		"released twice": func(s *script) {
			s.add(verbAcquire, done, 1, exclusive, 5, 1, 2)
			s.add(verbRelease, unknown, 1, exclusive, 5, 3, 4)
			s.add(verbAcquire, done, 2, exclusive, 6, 5, 6)
			s.add(verbRelease, done, 1, exclusive, 5, 7, 8)
		},
		"a run of readers, the second there before the first has returned": func(s *script) {
			s.add(verbAcquire, done, 1, shared, 5, 1, 9)
			s.add(verbAcquire, done, 2, shared, 6, 2, 3).fence = 5
		},
		"two slots, one taken over": func(s *script) {
			s.add(verbAcquire, done, 1, slotted, 5, 1, 2).slot = 1
			s.add(verbAcquire, done, 2, slotted, 6, 3, 4).slot = 2
			s.add(verbRelease, done, 1, slotted, 5, 5, 8)
			s.add(verbAcquire, done, 3, slotted, 7, 6, 7).slot = 1
		},
	} {
		s := &script{}
		write(s)
		if _, lost, err := verdict(s.all, ""); err != nil || lost > 0 {
			t.Errorf("%s: %v (%d given up)", what, err, lost)
		}
	}
}

// A true history in which one lease is not seen to end, though another was
// granted after it, is refused, and drawn.
func TestTampered(t *testing.T) {
	var all []record
	synctest.Test(t, func(t *testing.T) { all = play(t, *first) })
	dir, tampered := t.TempDir(), 0
	for _, g := range all {
		if !g.grants() || g.mode != exclusive || !followed(all, g) {
			continue
		}
		tampered++
		without := slices.DeleteFunc(slices.Clone(all), func(r record) bool {
			return r.token == g.token && (r.verb == verbRelease || r.verb == verbDeadline)
		})
		if _, _, err := verdict(without, dir); !errors.Is(err, errNoOrder) {
			t.Errorf("{%v} without an end: %v", g, err)
		}
		if _, err := os.Stat(filepath.Join(dir, g.name+".html")); err != nil {
			t.Error(err)
		}
	}
	if tampered < 3 {
		t.Errorf("only %d leases of seed %d could be tampered with", tampered, *first)
	}
}

// followed reports whether another was granted the name for certain after a
// grant, before anything but its release or deadline could have ended it.
func followed(all []record, g record) bool {
	return slices.ContainsFunc(all, func(next record) bool {
		return next.grants() && next.name == g.name && next.call > g.ret && !slices.ContainsFunc(all, func(x record) bool {
			return x.client == g.client && (x.verb == verbClose || x.verb == verbEnd) && x.call < next.ret
		})
	})
}
