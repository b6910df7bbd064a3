package storetest

import (
	"errors"
	"slices"
	"sync"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// Text 6: standbys follow the log.
var followTests = []Test{
	{Name: "StandbyFollows", Run: follows},
	{Name: "StandbyFollowsWithoutACell", Run: followsNothing},
	{Name: "StandbyFollowsOverAHoleThatIsCut", Run: followsCut},
	{Name: "StandbyFollowsOverAHoleThatIsFilled", Run: followsFilled},
	{Name: "StandbyFollowsUnderLateDuplicates", Run: followsDuplicates},
	{Name: "StandbyFollowsUnderLoad", Run: followsLoad},
	{Name: "SnapshotPassesAStandby", Run: followsPassed},
	{Name: "StandbyResumesBehindASnapshot", Run: followsSnapshot},
	{Name: "StandbyFollowsARollBack", Needs: NeedSave, Run: followsRollBack},
	{Name: "StandbyFollowsARollBackToAHole", Needs: NeedSave, Run: followsRollBackToAHole},
	{Name: "StandbyFollowsDamage", Run: followsDamage},
	{Name: "ResumeFindsDamage", Run: resumesDamage},
	{Name: "ZombieResumes", Run: zombieResumes},
}

// follower is a standby, as far as it reads the log.
type follower struct {
	*cell
	srv *Server
	at  store.Position
	// state holds the mark of each batch up to at, in order.
	state []uint64
	// part: the snapshot was read in part.
	part bool
}

func (c *cell) follower() *follower {
	return &follower{cell: c, srv: c.p.Server(c.t, How{ActiveTTL: Never})}
}

// read reads on once. After ErrMoved it has nothing any more.
func (f *follower) read() error {
	err := f.srv.Follow(f.t.Context(), f.at, f.chunk, f.batch)
	if f.part || errors.Is(err, store.ErrMoved) || errors.Is(err, store.ErrDamaged) {
		f.at, f.state, f.part = store.Position{}, nil, false
	}
	return err
}

func (f *follower) chunk(n uint64, raw []byte) error {
	ch, _, err := store.OpenChunk(raw)
	if err != nil {
		return err
	}
	for _, e := range ch.Events {
		f.state = append(f.state, e.Token)
	}
	f.at.Number, f.part = n, !ch.Last
	copy(f.at.Sum[:], ch.Previous)
	return nil
}

func (f *follower) batch(n uint64, raw []byte) error {
	b, sum, err := store.OpenBatch(raw)
	if err != nil {
		return err
	}
	if n != f.at.Number+1 {
		f.t.Errorf("a follower is shown batch %d after %d", n, f.at.Number)
	}
	f.at = store.Position{Number: n, Sum: sum}
	f.state = append(f.state, b.Events[0].Token)
	return nil
}

// reads reads on, and wants it to end with batch n.
func (f *follower) reads(n uint64) {
	f.t.Helper()
	if err := f.read(); err != nil {
		f.t.Fatalf("follow: %v", err)
	}
	if f.at.Number != n || uint64(len(f.state)) != n {
		f.t.Errorf("followed up to batch %d with a state of %d, want %d", f.at.Number, len(f.state), n)
	}
}

// resume claims and resumes. What it has then must be what a replay gives.
func (f *follower) resume() (*writer, error) {
	f.t.Helper()
	w := f.claim(f.cell.server(), hasty)
	state := slices.Clone(f.state)
	last, sum := f.at.Number, f.at.Sum
	head, _, err := w.ten.Resume(f.t.Context(), f.at, func(n uint64, raw []byte) error {
		b, s, err := store.OpenBatch(raw)
		if err != nil {
			return err
		}
		if n != last+1 {
			f.t.Errorf("resume visits batch %d after %d", n, last)
		}
		last, sum = n, s
		state = append(state, b.Events[0].Token)
		return nil
	})
	if err != nil {
		return w, err
	}
	if head != last || uint64(len(state)) != head {
		f.t.Errorf("resume ends at %d having visited up to %d, with a state of %d batches", head, last, len(state))
	}
	f.check(state)
	if err := w.replay(); err != nil {
		f.t.Fatalf("replay after resume: %v", err)
	}
	if !slices.Equal(w.state, state) || w.last != head || string(w.sum) != string(sum[:]) {
		f.t.Errorf("resume gives %d batches, %v; replay %d, %v", head, state, w.last, w.state)
	}
	return w, nil
}

// takesOver resumes, opens and works on.
func (f *follower) takesOver() *writer {
	f.t.Helper()
	w, err := f.resume()
	if err != nil {
		f.t.Fatalf("resume: %v", err)
	}
	// Open goes on from what was read last.
	if err := w.open(); err != nil {
		f.t.Fatalf("open: %v", err)
	}
	w.append()
	return w
}

// passed wants to be told that the log cannot be read on, and replays it.
func (f *follower) passed(doing string, also error) {
	f.t.Helper()
	w, err := f.resume()
	ends(f.t, "resume after "+doing, err, store.ErrMoved)
	if also != nil {
		ends(f.t, "resume after "+doing, err, also)
	} else if errors.Is(err, store.ErrRolledBack) {
		f.t.Errorf("resume after %s: %v", doing, err)
	}
	w.begin()
	w.append()
}

func follows(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	f := c.follower()
	f.reads(1)
	for range 5 {
		w.appendMany(3)
		f.reads(w.last)
	}
	f.reads(w.last)
	w.appendMany(3)
	w = f.takesOver()
	f.reads(w.last)
	f.takesOver()
	// An opening right behind the position.
	g := c.follower()
	g.reads(c.takeOver().last)
	b := c.claim(c.server(), hasty)
	head, _, err := b.ten.Resume(t.Context(), g.at, g.batch)
	if err != nil || head != g.at.Number {
		t.Fatalf("resume with nothing new: head %d, %v", head, err)
	}
	b.last, b.sum, b.state = head, g.at.Sum[:], g.state
	if err := b.open(); err != nil {
		t.Fatalf("open after resume: %v", err)
	}
	b.append()
	c.takeOver()
}

func followsNothing(t T, p *Place) {
	c := newCell(t, p)
	f := c.follower()
	f.reads(0)
	c.takeOver()
	f.reads(1)
	f.takesOver()
}

// followsCut: what lies behind the hole is not read, and the batches that come in its
// place are.
func followsCut(t T, p *Place) {
	c := newCell(t, p)
	f := c.follower()
	_, n := hole(c)
	f.reads(n - 1)
	f.reads(n - 1)
	g := c.follower()
	g.reads(n - 1)
	w := f.takesOver()
	w.appendMany(5)
	g.reads(w.last)
	g.takesOver()
}

func followsFilled(t T, p *Place) {
	c := newCell(t, p)
	f := c.follower()
	w, n := hole(c)
	f.reads(n - 1)
	if err := w.send(n); err != nil {
		t.Fatalf("append %d: %v", n, err)
	}
	f.reads(w.last)
	f.takesOver()
}

// followsDuplicates: every write of all tenures lands again after each read.
func followsDuplicates(t T, p *Place) {
	c := newCell(t, p)
	f := c.follower()
	all := newRepeater(t, p)
	for range 3 {
		w := c.takeOver()
		w.appendMany(12)
		all.again("while a standby follows")
		f.reads(w.last)
		if err := w.snapshot(); err != nil {
			t.Fatalf("snapshot: %v", err)
		}
		w.appendMany(3)
		all.again("while a standby follows")
		f.reads(w.last)
	}
	f.takesOver()
}

func followsLoad(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	f := c.follower()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			// Others than these, such as of a snapshot that was replaced meanwhile.
			if err := f.read(); errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrRolledBack) {
				t.Errorf("follow under load: %v", err)
				return
			}
		}
	})
	for i := range 30 {
		var flight sync.WaitGroup
		for range store.InFlight {
			n, _ := w.next()
			flight.Go(func() {
				if err := w.send(n); err != nil {
					t.Errorf("append %d: %v", n, err)
				}
			})
		}
		flight.Wait()
		if i%7 == 6 {
			if err := w.snapshot(); err != nil {
				t.Errorf("snapshot: %v", err)
			}
		}
	}
	close(stop)
	wg.Wait()
	if err := f.read(); err != nil {
		f.reads(w.last)
	}
	f.reads(w.last)
	f.takesOver()
}

// followsPassed: the log that a standby has not read yet is truncated.
func followsPassed(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	f, g := c.follower(), c.follower()
	f.reads(w.last)
	g.reads(w.last)
	w.appendMany(30)
	if err := w.snapshot(); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	err := f.read()
	ends(t, "follow over a truncation", err, store.ErrMoved)
	if errors.Is(err, store.ErrRolledBack) {
		t.Errorf("follow over a truncation: %v", err)
	}
	f.reads(w.last)
	w.append()
	f.takesOver()
	g.passed("a snapshot that passed it", nil)
	c.takeOver()
}

// followsSnapshot: a snapshot is published behind the standby, before it and where it
// is; the last batches are still in the log.
func followsSnapshot(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	w.appendMany(20)
	at, before := c.follower(), c.follower()
	before.reads(w.last)
	w.appendMany(3)
	at.reads(w.last)
	if err := w.snapshot(); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	fresh := c.follower()
	fresh.reads(w.last)
	for _, f := range []*follower{at, before, fresh} {
		f.takesOver()
	}
	// The batch that the snapshot follows is gone, and nothing follows it.
	last := c.takeOver()
	if err := last.snapshot(); err != nil {
		t.Fatalf("snapshot: %v", err)
	}
	f := c.follower()
	f.reads(last.last)
	p.DropLog(t)
	f.takesOver()
	c.takeOver()
}

// followsRollBack: the store is set back to before what a standby has read.
func followsRollBack(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver().appendMany(3)
	restore := p.Save()
	f := c.follower()
	w := c.takeOver()
	w.appendMany(3)
	f.reads(w.last)
	restore()
	// The cell goes on from what is there; f's state is of the past that is lost.
	fresh := newCell(t, p)
	fresh.marks = 1000
	missing := *f
	missing.cell = fresh
	missing.passed("a roll-back", store.ErrRolledBack)
	fresh.takeOver().appendMany(8)
	other := *f
	other.cell = fresh
	other.passed("a roll-back that others went on from", store.ErrRolledBack)
	err := f.read()
	ends(t, "follow after a roll-back", err, store.ErrMoved)
	fresh.takeOver()
}

// followsRollBackToAHole: the store is set back to where the last batch that a standby
// has read was there, and one before it was not.
func followsRollBackToAHole(t T, p *Place) {
	c := newCell(t, p)
	w, n := hole(c)
	restore := p.Save()
	if err := w.send(n); err != nil {
		t.Fatalf("append %d: %v", n, err)
	}
	f := c.follower()
	f.reads(w.last)
	restore()
	fresh := newCell(t, p)
	fresh.marks = 1000
	f.cell = fresh
	f.passed("a roll-back to a hole", store.ErrRolledBack)
	fresh.takeOver()
}

// followsDamage: a standby is told of damage in what it reads.
func followsDamage(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	w.appendMany(11)
	f := c.follower()
	f.reads(w.last)
	w.appendMany(11)
	n := w.last - 5
	whole := p.Batch(t, n)
	p.SetBatch(t, n, flip(whole))
	ends(t, "follow over damage", f.read(), store.ErrMoved)
	ends(t, "follow anew over damage", f.read(), store.ErrDamaged)
	p.SetBatch(t, n, whole)
	f.reads(w.last)
	f.takesOver()
}

// resumesDamage: what resume reads it checks as replay does; replay says what it is.
func resumesDamage(t T, p *Place) {
	c := newCell(t, p)
	w := c.takeOver()
	w.appendMany(3)
	f := c.follower()
	f.reads(w.last)
	w.appendMany(11)
	k := w.last - 7
	whole := p.Batch(t, k)
	h, err := store.HeaderOf(whole)
	if err != nil {
		t.Fatalf("read batch %d: %v", k, err)
	}
	later, _ := c.seal(1<<40, h.Nonce, k, h.Previous, 1, 1)
	for doing, harm := range map[string][]byte{
		"dropping a batch known durable": nil,
		"flipping a bit":                 flip(whole),
		"a batch of a later epoch":       later,
		"the next one in its place":      p.Batch(t, k+1),
	} {
		if harm == nil {
			p.DropBatch(t, k)
		} else {
			p.SetBatch(t, k, harm)
		}
		d, err := f.resume()
		ends(t, "resume after "+doing, err, store.ErrMoved)
		ends(t, "replay after "+doing, d.replay(), store.ErrDamaged)
		p.SetBatch(t, k, whole)
	}
	f.takesOver()
}

// zombieResumes: the next tenure is claimed while one resumes.
func zombieResumes(t T, p *Place) {
	c := newCell(t, p)
	c.takeOver().appendMany(5)
	f := c.follower()
	f.reads(6)
	srv := c.server()
	a := c.claim(srv, hasty)
	when(srv, kvlog.WhatRead, func() { c.takeOver() })
	_, _, err := a.ten.Resume(t.Context(), f.at, f.batch)
	ends(t, "resume over a take-over", err, store.ErrFenced)
	over(a)
	b := c.claim(c.server(), hasty)
	if _, _, err := b.ten.Resume(t.Context(), f.at, f.batch); err != nil {
		t.Fatalf("resume: %v", err)
	}
	d := c.takeOver()
	n := f.at.Number + 1
	raw, _ := c.seal(b.ten.Epoch(), b.ten.Nonce(), n, f.at.Sum[:], n-1, c.mark())
	ends(t, "open", b.ten.Open(t.Context(), n, raw), store.ErrFenced)
	d.append()
	c.takeOver()
}
