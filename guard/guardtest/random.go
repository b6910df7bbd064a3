package guardtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/pawlproject/pawl/guard"
)

const (
	stepSeeds = 4
	steps     = 60

	historyRounds  = 24
	historyCallers = 4
	historyOps     = 5
)

// randomFence draws from few tokens, so that equal and lower ones are common,
// and now and then something that is no valid fence.
func randomFence(rnd *rand.Rand, resource string) guard.Fence {
	f := fence(resource, guard.Token(1+rnd.IntN(6)))
	switch rnd.IntN(20) {
	case 0:
		f.Cell = another
	case 1:
		f.Token = 0
	case 2:
		f.Token = guard.Max + guard.Token(rnd.Uint64N(1<<62)) + 1
	case 3:
		f.Cell = ""
	}
	return f
}

// decided is the outcome that Decide prescribes.
func decided(v guard.Verdict) outcome {
	switch v {
	case guard.Pass, guard.Advance:
		return done
	case guard.Stale:
		return stale
	case guard.Foreign:
		return foreign
	case guard.Missing:
		return missing
	default:
		return malformed
	}
}

// stepByStep runs random operations one after the other, beside Decide.
func stepByStep(ctx context.Context, r Resource) error {
	for seed := range uint64(stepSeeds) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		states := map[string]guard.State{}
		lists := map[string][]string{}
		for step := range steps {
			name := fmt.Sprintf("steps %d %d", seed, rnd.IntN(2))
			f, claim := randomFence(rnd, name), rnd.IntN(3) == 0
			next, v := guard.Decide(guard.Monotonic, states[name], f.Mark())
			states[name] = next

			var err error
			if claim {
				err = r.Claim(ctx, f)
			} else {
				text := strconv.Itoa(step)
				err = r.Append(ctx, f, text)
				if decided(v) == done {
					lists[name] = append(lists[name], text)
				}
			}
			doing := fmt.Sprintf("seed %d step %d, claim %t, %v", seed, step, claim, f)
			if err := r.want(decided(v), err, "%s", doing); err != nil {
				return err
			}
			got, err := r.Seen(ctx, name)
			if err != nil || got.Cell != next.Cell || got.Seen != next.Seen {
				return fmt.Errorf("%s: the mark is %+v (%v), want %+v", doing, got, err, next)
			}
			if err := r.wantList(ctx, name, lists[name]...); err != nil {
				return fmt.Errorf("%s: %w", doing, err)
			}
		}
	}
	return nil
}

// histories lets callers loose on one list at a time and asks whether what
// they were told fits one order of decisions.
func histories(ctx context.Context, r Resource) error {
	didSomething := false
	for round := range historyRounds {
		name := fmt.Sprintf("history %d", round)
		ops, err := r.history(ctx, name, uint64(round))
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		list, err := r.Read(ctx, name)
		if err != nil {
			return fmt.Errorf("round %d: read: %w", round, err)
		}
		mark, err := r.Seen(ctx, name)
		if err != nil {
			return fmt.Errorf("round %d: seen: %w", round, err)
		}
		if err := explain(ops, list, mark, r.RaisesFirst); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		didSomething = didSomething || len(list) > 0
	}
	if !didSomething {
		return errors.New("no operation of any history was done, so nothing was tested")
	}
	return nil
}

// history runs callers at once and returns what each was told.
func (r Resource) history(ctx context.Context, name string, round uint64) ([]op, error) {
	var clock atomic.Int64
	all := make([][]op, historyCallers)
	var wg sync.WaitGroup
	start := make(chan struct{})
	for caller := range all {
		rnd := rand.New(rand.NewPCG(round, uint64(caller)))
		wg.Go(func() {
			<-start
			for i := range historyOps {
				o := op{fence: randomFence(rnd, name)}
				kind := rnd.IntN(4)
				if kind > 0 {
					o.text = fmt.Sprintf("%d.%d", caller, i)
				}
				o.begin = clock.Add(1)
				err := r.run(ctx, o, kind == 1)
				o.end = clock.Add(1)
				o.outcome, o.err = r.outcome(err), err
				all[caller] = append(all[caller], o)
			}
		})
	}
	close(start)
	wg.Wait()
	ops := slices.Concat(all...)
	for _, o := range ops {
		if o.outcome == strange {
			return nil, fmt.Errorf("%v: %s: %w", o.fence, o.outcome, o.err)
		}
	}
	return ops, nil
}

// run does an operation, with a pause before its commit when paused is wanted
// and the resource has transactions.
func (r Resource) run(ctx context.Context, o op, paused bool) error {
	switch {
	case o.text == "":
		return r.Claim(ctx, o.fence)
	case !paused || r.Begin == nil:
		return r.Append(ctx, o.fence, o.text)
	}
	tx, err := r.Begin(ctx, o.fence, o.text)
	if err != nil {
		return err
	}
	for range 10 {
		runtime.Gosched()
	}
	if err := tx.Commit(); err != nil {
		// What a bare commit's error means is the driver's affair; unknown is true
		// of every one that the guard does not name.
		if r.outcome(err) == strange {
			return fmt.Errorf("%w: %w", guard.ErrUnknown, err)
		}
		return err
	}
	return nil
}
