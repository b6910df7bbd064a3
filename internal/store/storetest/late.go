package storetest

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// repeater makes every write sent so far land again, a few at a time, in the order in
// which they were sent and then in reverse, and checks that none of them changes
// anything.
type repeater struct {
	t    T
	p    *Place
	done int
	seen map[kvlog.What]bool
}

func newRepeater(t T, p *Place) *repeater {
	return &repeater{t: t, p: p, seen: map[kvlog.What]bool{}}
}

func (r *repeater) again(after string) {
	r.t.Helper()
	sent := make([]Write, r.p.Sent())
	for i := range sent {
		sent[i] = r.p.Write(i)
	}
	if r.done++; r.done%2 == 0 {
		slices.Reverse(sent)
	}
	before := r.p.Picture(r.t)
	r.pass(sent)
	same(r.t, "late duplicates "+after, before, r.p.Picture(r.t))
}

// abreast is how many late duplicates are on their way at once.
const abreast = 8

func (r *repeater) pass(writes []Write) {
	r.t.Helper()
	var wg sync.WaitGroup
	next := make(chan Write)
	for range abreast {
		wg.Go(func() {
			for w := range next {
				if err := w.Again(r.t.Context()); err != nil {
					r.t.Errorf("land %s again: %v", w.What, err)
				}
			}
		})
	}
	for _, w := range writes {
		r.seen[w.What] = true
		next <- w
	}
	close(next)
	wg.Wait()
}

// every fails the test when a kind of write was never repeated.
func (r *repeater) every() {
	r.t.Helper()
	for _, what := range []kvlog.What{
		kvlog.WhatFresh, kvlog.WhatClaim, kvlog.WhatOpen, kvlog.WhatAppend, kvlog.WhatBeat, kvlog.WhatChunk,
		kvlog.WhatPublish, kvlog.WhatTruncate, kvlog.WhatSweep, kvlog.WhatResign,
	} {
		if !r.seen[what] {
			r.t.Errorf("no %s was repeated", what)
		}
	}
}

// lateDuplicates goes through tenures that do everything there is to do, and
// after each step has all that was ever sent land again.
func lateDuplicates(t T, p *Place) {
	c := newCell(t, p)
	r := newRepeater(t, p)
	live(t, c, r, nil)
	r.every()
}

// landOnlyLater is the same with every first try lost on the way: it lands
// only when the second one has been answered, and then again and again.
func landOnlyLater(t T, p *Place) {
	c := newCell(t, p)
	r := newRepeater(t, p)
	live(t, c, r, func() func(kvlog.What) faulty.Fault {
		var mu sync.Mutex
		tries := map[kvlog.What]int{}
		return func(what kvlog.What) faulty.Fault {
			mu.Lock()
			defer mu.Unlock()
			if what == kvlog.WhatRead || what == kvlog.WhatConfirm || what == kvlog.WhatBeat {
				return faulty.Fault{}
			}
			tries[what]++
			n := tries[what]
			if what == kvlog.WhatChunk && n&(n-1) != 0 {
				return faulty.Fault{} // a snapshot begins again with its first chunk
			}
			if n%2 == 0 && what != kvlog.WhatChunk {
				return faulty.Fault{}
			}
			return refused
		}
	})
	r.every()
}

// live runs five tenures; bad gives each server its plan, nil: all are good.
func live(t T, c *cell, r *repeater, bad func() func(kvlog.What) faulty.Fault) {
	server := func(how How) *Server {
		s := c.p.Server(t, how)
		if bad != nil {
			s.Plan(bad())
		}
		return s
	}
	insist := func(doing string, f func() error) {
		t.Helper()
		var err error
		for range 40 {
			if err = f(); err == nil {
				return
			}
		}
		t.Fatalf("%s, tried again and again: %v", doing, err)
	}
	appendTo := func(w *writer, count int) {
		t.Helper()
		for range count {
			n, _ := w.next()
			insist("append", func() error { return w.send(n) })
		}
	}
	for tenure := range 5 {
		// The first beats and resigns; the others come in haste.
		how, node := How{Hasty: true, ActiveTTL: 10 * time.Millisecond}, hasty
		if tenure == 0 || tenure == 3 {
			how, node = How{ActiveTTL: Never}, c.node()
		}
		w := c.claim(server(how), node)
		r.again("after a claim")
		if !w.ten.Opened() {
			if err := w.replay(); err != nil {
				t.Fatalf("replay: %v", err)
			}
			r.again("after a replay")
			insist("open", w.open)
			r.again("after an opening")
		}
		for range 2 {
			appendTo(w, 8)
			r.again("after appends")
			insist("snapshot", w.snapshot)
			r.again("after a snapshot")
		}
		appendTo(w, 2)
		if tenure == 0 || tenure == 2 || tenure == 3 {
			insist("resign", func() error { return w.ten.Resign(t.Context()) })
			r.again("after resigning")
		}
	}
	last := c.takeOver()
	r.again("in the last tenure")
	last.append()
	c.takeOver()
}

// turmoil mixes all faults, drawn from a seed: take-overs that come too early, lost
// answers, writes that land twice, crashes, and deposed servers that go on.
func turmoil(t T, p *Place) {
	const steps = 400
	for seed := range max(p.Seeds, 1) {
		rng := rand.New(rand.NewPCG(seed, 7))
		c := newCell(t, p)
		c.marks = (seed + 1) << 32
		var writers []*writer
		fate := func(kvlog.What) faulty.Fault {
			switch rng.IntN(8) {
			case 0:
				return loseAnswer
			case 1:
				return refused
			}
			return faulty.Fault{}
		}
		for range steps {
			switch pick := rng.IntN(20); {
			case pick == 0 || len(writers) == 0:
				srv := c.server()
				srv.Plan(fate)
				w := c.claim(srv, hasty)
				writers = append(writers, w)
			case pick == 1:
				i := rng.IntN(len(writers))
				writers[i].srv.Crash()
				writers = append(writers[:i], writers[i+1:]...)
			case pick < 5:
				if err := p.Write(rng.IntN(p.Sent())).Again(t.Context()); err != nil {
					t.Fatalf("land again: %v", err)
				}
			case pick < 7:
				w := writers[rng.IntN(len(writers))]
				if w.opened {
					_ = w.snapshot()
				}
			default:
				work(t, rng, writers[rng.IntN(len(writers))])
			}
		}
		c.takeOver()
		if len(c.acked) < steps/20 {
			t.Errorf("seed %d: only %d batches were acknowledged", seed, len(c.acked))
		}
	}
}

// work takes w one step on; an error is the fate of a zombie or of a lost
// answer, and what it means the next replay will show.
func work(t T, rng *rand.Rand, w *writer) {
	t.Helper()
	switch {
	case w.state == nil:
		_ = w.replay()
	case !w.opened:
		_ = w.open()
	default:
		if w.last-w.durable < store.InFlight {
			w.next()
		}
		_ = w.send(w.durable + 1 + rng.Uint64N(w.last-w.durable))
	}
}
