package guardtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/guard"
)

func TestARightGuardPasses(t *testing.T) {
	Run(t, func(*testing.T) Resource { return newMemory(none).resource() })
}

func TestARightGuardWithoutTransactionsPasses(t *testing.T) {
	Run(t, func(*testing.T) Resource {
		r := newMemory(none).resource()
		r.Begin, r.Step, r.OffsetOf, r.InTx, r.SideBySide, r.Busy = nil, nil, nil, nil, false, nil
		return r
	})
}

// C85: a contract that has caught no planted fault is no contract. Each fault has to be
// caught by the rule that is about it.
func TestEveryFaultIsCaught(t *testing.T) {
	for f, name := range map[fault]string{
		acceptsLower:       "a lower fence is refused",
		refusesEqual:       "an equal fence passes",
		claimRaisesNothing: "a claim closes the window",
		claimUnchecked:     "a lower fence is refused",
		writeRaisesNothing: "a lower fence is refused",
		refusedWrites:      "a refused operation leaves no trace",
		refusedRaises:      "a refused operation leaves no trace",
		unknownAsRefused:   "a lost answer is unknown",
		unknownAsDone:      "a lost answer is unknown",
		unknownAsOther:     "a lost answer is unknown",
		zeroAccepted:       "only 1 to 2^53-1 are tokens",
		aboveMaxAccepted:   "only 1 to 2^53-1 are tokens",
		foreignAccepted:    "another cell is refused",
		foreignAsStale:     "another cell is refused",
		cellOverwritten:    "another cell is refused",
		roundsTokens:       "tokens are compared as whole numbers",
		cutsTokens:         "tokens are compared as whole numbers",
		comparesText:       "tokens are compared as whole numbers",
		foldsNames:         "resources are apart",
		checksBefore:       "an open transaction of an old holder",
		takesTurns:         "one holder side by side",
		bareError:          "a lower fence is refused",
		wrongSeen:          "a lower fence is refused",
		seenOfOwnCell:      "a mark is seen",
		nothingIsError:     "a mark is seen",
		seenLater:          "a mark is seen when its claim has returned",
		seenWithoutEnd:     "a context that ends before the mark is read",
		seenHidesEnd:       "a context that ends before the mark is read",
		leapsGaps:          "an offset moves in turn",
		stepsTwice:         "an offset moves in turn",
		stepUnfenced:       "an offset moves under the fence",
		stepRaisesNone:     "an offset moves under the fence",
		offsetBehind:       "a repeated step takes effect once",
		offsetAhead:        "a repeated step takes effect once",
		cutsOffsets:        "an offset moves in turn",
		foldsKeys:          "offsets are apart",
		backwards:          "offsets are 1 to 2^63-1 and go up",
		aboveSigned:        "offsets are 1 to 2^63-1 and go up",
		noKey:              "offsets are 1 to 2^63-1 and go up",
		runsFirst:          "a function runs under its fence",
		commitsFailed:      "a function that fails leaves no trace",
		failedIsStale:      "a function that fails leaves no trace",
		swallowsPanics:     "a function that fails leaves no trace",
		commitsLate:        "a context that ends before the commit",
		hidesCause:         "a context that ends before the commit",
		endedIsDone:        "a function that commits by itself",
	} {
		t.Run(string(f), func(t *testing.T) {
			i := slices.IndexFunc(rules, func(r rule) bool { return r.name == name })
			err := rules[i].check(t.Context(), newMemory(f).resource())
			if err == nil {
				t.Fatalf("the rule %q did not see it", name)
			}
			t.Log(err)
		})
	}
}

// The walk beside Decide finds by itself what the single rules are about, as far as it
// lies in the decision.
func TestStepsSeeFaultsOfTheRule(t *testing.T) {
	for _, f := range []fault{
		acceptsLower, refusesEqual, claimRaisesNothing, claimUnchecked, writeRaisesNothing, refusedWrites,
		refusedRaises, zeroAccepted, aboveMaxAccepted, foreignAccepted, foreignAsStale, cellOverwritten, foldsNames,
	} {
		if err := stepByStep(t.Context(), newMemory(f).resource()); err == nil {
			t.Errorf("%s: not seen", f)
		}
	}
}

// TestHistoriesSeeARace lets a guard that lets go between check and write run
// until it is caught, which takes few rounds on any scheduler.
func TestHistoriesSeeARace(t *testing.T) {
	for _, f := range []fault{checkThenAct, checksBefore} {
		for _, raisesFirst := range []bool{false, true} {
			caught := false
			for range 200 {
				r := newMemory(f).resource()
				r.RaisesFirst = raisesFirst
				if histories(t.Context(), r) != nil {
					caught = true
					break
				}
			}
			if !caught {
				t.Errorf("%s (raises first: %t): not seen in 200 runs", f, raisesFirst)
			}
		}
	}
}

// TestStepsAtOnceSeeARace is the same for offsets.
func TestStepsAtOnceSeeARace(t *testing.T) {
	for range 200 {
		if offsetsAtOnce(t.Context(), newMemory(looksBeforeStep).resource()) != nil {
			return
		}
	}
	t.Error("not seen in 200 runs")
}

func TestALostAnswerMustBeShown(t *testing.T) {
	r := newMemory(none).resource()
	r.LoseAnswer = nil
	if lostIsUnknown(t.Context(), r) == nil || offsetsOnce(t.Context(), r) == nil {
		t.Error("a resource that cannot lose an answer passed")
	}
}

// A guard that finds out what became of an operation may say so, and nothing else.
func TestALostAnswerIsResolvedTruthfully(t *testing.T) {
	for f, right := range map[fault]bool{
		none: true, resolves: true, unknownAsDone: false, unknownAsRefused: false, unknownAsOther: false, repeatsTwice: false,
	} {
		r := newMemory(f).resource()
		r.Resolves = true
		if err := lostIsUnknown(t.Context(), r); (err == nil) != right {
			t.Errorf("%s: %v", f, err)
		}
	}
	if lostIsUnknown(t.Context(), newMemory(resolves).resource()) == nil {
		t.Error("a guard that does not say that it resolves answers called one done")
	}
}

func TestErrorMatchesOneOutcome(t *testing.T) {
	r := Resource{Busy: func(error) bool { return true }}
	if got := r.outcome(guard.ErrStale); got != strange {
		t.Errorf("stale and busy at once is %s", got)
	}
}

func TestExplain(t *testing.T) {
	at := func(begin, end int64, token guard.Token, text string, o outcome) op {
		return op{fence: fence("x", token), text: text, begin: begin, end: end, outcome: o}
	}
	seen := func(t guard.Token) guard.State { return guard.State{Cell: cell, Seen: t} }
	for _, c := range []struct {
		name string
		ops  []op
		list string
		mark guard.State
		ok   bool
	}{
		{name: "nothing", ok: true},
		{"one", []op{at(1, 2, 5, "a", done)}, "a", seen(5), true},
		{"done and not there", []op{at(1, 2, 5, "a", done)}, "", seen(5), false},
		{"there and not done", []op{at(1, 2, 5, "a", stale)}, "a", guard.State{}, false},
		{"twice", []op{at(1, 2, 5, "a", done)}, "a a", seen(5), false},
		{"mark behind", []op{at(1, 2, 5, "a", done)}, "a", seen(4), false},
		{"two at once, the list decides", []op{at(1, 4, 6, "a", done), at(2, 3, 5, "b", done)}, "b a", seen(6), true},
		{"two at once, tokens fall", []op{at(1, 4, 6, "a", done), at(2, 3, 5, "b", done)}, "a b", seen(6), false},
		{"after a claim", []op{at(1, 2, 6, "", done), at(3, 4, 5, "b", done)}, "b", seen(6), false},
		{"beside a claim", []op{at(1, 3, 6, "", done), at(2, 4, 5, "b", done)}, "b", seen(6), true},
		{"stale for no reason", []op{at(1, 2, 5, "", stale), at(3, 4, 6, "", done)}, "", seen(6), false},
		{"stale beside the reason", []op{at(1, 4, 5, "", stale), at(3, 5, 6, "", done)}, "", seen(6), true},
		{"unknown and not there", []op{at(1, 2, 5, "a", unknown)}, "", guard.State{}, true},
		{"unknown and there", []op{at(1, 2, 5, "a", unknown)}, "a", seen(5), true},
		{"unknown lands late", []op{at(1, 2, 5, "a", unknown), at(3, 4, 5, "b", done)}, "b a", seen(5), true},
		{"unknown lands after a claim", []op{at(1, 2, 5, "a", unknown), at(3, 4, 6, "b", done)}, "b a", seen(6), false},
		{"busy did nothing", []op{at(1, 2, 5, "a", busy)}, "a", seen(5), false},
	} {
		err := explain(c.ops, strings.Fields(c.list), c.mark, false)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		// What one decision explains two do as well.
		if err := explain(c.ops, strings.Fields(c.list), c.mark, true); c.ok && err != nil {
			t.Errorf("%s, raised first: %v", c.name, err)
		}
	}
}

// What raises the mark first may let a lower operation land after that, and no later.
func TestExplainRaisedFirst(t *testing.T) {
	at := func(begin, end int64, token guard.Token, text string, o outcome) op {
		return op{fence: fence("x", token), text: text, begin: begin, end: end, outcome: o}
	}
	for _, c := range []struct {
		name string
		ops  []op
		list string
		seen guard.Token
		ok   bool
	}{
		{"refused while the lower one lands", []op{at(1, 6, 5, "a", done), at(2, 7, 6, "", done), at(3, 4, 5, "b", stale)}, "a", 6, true},
		{"the equal overtakes after the raise", []op{at(1, 6, 5, "a", done), at(2, 3, 4, "", stale), at(4, 5, 5, "b", done)}, "b a", 5, true},
		{"lands after a claim's return", []op{at(1, 6, 5, "a", done), at(2, 3, 6, "", done), at(4, 5, 6, "b", done)}, "b a", 6, false},
		{"lands below what landed", []op{at(1, 4, 6, "a", done), at(2, 3, 5, "b", done)}, "a b", 6, false},
		{"refused by what had not begun", []op{at(1, 2, 5, "b", stale), at(3, 4, 6, "", done)}, "", 6, false},
		{"busy has raised", []op{at(1, 2, 6, "a", busy), at(3, 4, 5, "b", stale)}, "", 6, true},
		{"busy has landed", []op{at(1, 2, 6, "a", busy)}, "a", 6, false},
		{"never seen, and let in", []op{at(1, 2, 6, "", done), at(3, 4, 5, "b", done)}, "b", 6, false},
	} {
		if err := explain(c.ops, strings.Fields(c.list), guard.State{Cell: cell, Seen: c.seen}, true); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
