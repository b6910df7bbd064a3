package memstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// The members inside the servers; led is the one of the active server, which is gone as
// far as the next leader can tell.
const (
	led   = 7
	elect = 8
)

// member is what a server knows of them.
type member uint64

func (m member) Own() uint64             { return uint64(m) }
func (m member) Gone(member uint64) bool { return m == elect && member == led }

// moment is one at which the store is set back: as the elected server's nth transaction
// arrives, from 0, or when it has taken effect and is not answered yet; to the state
// after the store's nth write, from 0.
type moment struct {
	txn   int
	after bool
	state int
	// ahead: others have raised the revision meanwhile, so that it gives nothing away.
	ahead bool
	// rest is for how long nobody is answered from then on: until the member that has
	// lost its last writes, and was started again, takes part.
	rest time.Duration
}

// quorum is a store that a majority of three members keeps. Only what the elected
// server does is counted.
type quorum struct {
	*memstore.Disk
	at moment

	mu     sync.Mutex
	states []memstore.State
	// heads are the numbers of the last batches in those states.
	heads []uint64
	txns  int
	// setBack: it has happened, and answers are given again from then on.
	setBack bool
	opens   time.Time
	// happened is told of it.
	happened func(head uint64)
}

var errNoMajority = errors.New("no majority of the members answers")

// way is one server's way to the quorum.
type way struct {
	*quorum
	counts bool
	mu     sync.Mutex
	cut    bool
}

func (w *way) isCut(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

// closed says why nobody is answered, or this server is not.
func (w *way) closed() error {
	w.mu.Lock()
	cut := w.cut
	w.mu.Unlock()
	w.quorum.mu.Lock()
	defer w.quorum.mu.Unlock()
	if cut || time.Now().Before(w.opens) {
		return errNoMajority
	}
	return nil
}

func (w *way) Txn(ctx context.Context, x kvlog.Txn) (kvlog.Result, error) {
	if err := w.closed(); err != nil {
		return kvlog.Result{}, err
	}
	n := w.count(x)
	w.setBackAt(n, false)
	if err := w.closed(); err != nil {
		return kvlog.Result{}, err
	}
	res, err := w.Disk.Txn(ctx, x)
	if err == nil && res.OK && x.Writes() {
		w.save(x)
	}
	w.setBackAt(n, true)
	if closed := w.closed(); closed != nil {
		return kvlog.Result{}, closed
	}
	return res, err
}

func (w *way) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	if err := w.closed(); err != nil {
		return kvlog.Page{}, err
	}
	return w.Disk.Range(ctx, q)
}

// count numbers the transactions of the take-over, from the claim on.
func (w *way) count(x kvlog.Txn) int {
	w.quorum.mu.Lock()
	defer w.quorum.mu.Unlock()
	if !w.counts || w.txns == 0 && x.What != kvlog.WhatClaim || x.What == kvlog.WhatBeat {
		return -1
	}
	w.txns++
	return w.txns - 1
}

// save keeps what the store holds now.
func (q *quorum) save(x kvlog.Txn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.setBack {
		return
	}
	head := uint64(0)
	if len(q.heads) > 0 {
		head = q.heads[len(q.heads)-1]
	}
	for _, op := range x.Then {
		if op.Kind == kvlog.OpPut && op.Key == (kvlog.Keys{}).Log(head+1) {
			head++
		}
	}
	q.states, q.heads = append(q.states, q.Save()), append(q.heads, head)
}

func (q *quorum) setBackAt(txn int, after bool) {
	q.mu.Lock()
	if q.setBack || txn < 0 || txn != q.at.txn || after != q.at.after || q.at.state >= len(q.states) {
		q.mu.Unlock()
		return
	}
	q.setBack, q.opens = true, time.Now().Add(q.at.rest)
	if s := q.states[q.at.state]; q.at.ahead {
		q.RestoreAhead(s)
	} else {
		q.Restore(s)
	}
	head := q.heads[q.at.state]
	q.mu.Unlock()
	q.happened(head)
}

// chained is a tenure that seals batches of a chain.
type chained struct {
	store.Tenure
	number uint64
	sum    store.Sum
	// acked is the last batch that was acknowledged.
	acked uint64
}

func (c *chained) seal(epoch uint64, nonce store.Nonce) []byte {
	b := &recordpb.Batch{Epoch: epoch, Number: c.number + 1, Nonce: nonce[:], Durable: c.number}
	if c.number > 0 {
		b.Previous = c.sum[:]
	}
	raw, sum, err := store.SealBatch(b)
	if err != nil {
		panic(err)
	}
	c.number, c.sum = c.number+1, sum
	return raw
}

// over reports whether an error ends a tenure.
func over(err error) bool {
	return errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrRolledBack)
}

// tries calls until it succeeds or what it does is over.
func tries(call func() error) error {
	timer := clock.Bubble().NewTimer()
	defer timer.Stop()
	for begun := time.Now(); ; <-timer.C() {
		err := call()
		if err == nil || over(err) || time.Since(begun) > 4*activeTTL {
			return err
		}
		timer.Reset(activeTTL / 100)
	}
}

// server is one on a quorum.
func (q *quorum) server(t *testing.T, w *way, m member) *kvlog.Store {
	s := kvlog.New(w, kvlog.Options{Clock: clock.Bubble(), ActiveTTL: activeTTL, Members: m})
	t.Cleanup(func() {
		w.isCut(true)
		s.Close()
	})
	return s
}

// takesOver claims, reads, opens and appends, up to last.
func takesOver(t *testing.T, s *kvlog.Store, id byte, last uint64) (*chained, error) {
	c := &chained{}
	ten, err := s.Claim(t.Context(), store.Node{ID: [16]byte{id}}, store.Nonce{id}, c.seal)
	if err != nil {
		return c, err
	}
	if c.Tenure = ten; ten.Opened() {
		c.acked = 1
	} else if err := c.open(t); err != nil {
		return c, err
	}
	for c.number < last {
		raw := c.seal(ten.Epoch(), ten.Nonce())
		n := c.number
		if err := tries(func() error { return ten.Append(t.Context(), n, raw) }); err != nil {
			return c, err
		}
		c.acked = n
	}
	return c, tries(func() error { return ten.Confirm(t.Context()) })
}

// open reads the log, and opens the tenure behind it.
func (c *chained) open(t *testing.T) error {
	head := uint64(0)
	err := tries(func() (err error) {
		head, err = c.Replay(t.Context(), nil, func(_ uint64, raw []byte) error {
			h, err := store.HeaderOf(raw)
			c.sum = h.Sum
			return err
		})
		return err
	})
	if err != nil {
		return err
	}
	c.number = head
	raw := c.seal(c.Epoch(), c.Nonce())
	if err := tries(func() error { return c.Open(t.Context(), c.number, raw) }); err != nil {
		return err
	}
	c.acked = c.number
	return nil
}

// outcome is what became of a run.
type outcome struct {
	// happened: there was a store to set back at that moment.
	happened bool
	// wentOn: the deposed server wrote, or was told that it is in force, after the store
	// was set back.
	wentOn bool
	// lost: the elected server had acknowledged what the store lost.
	lost bool
	// txns and states of the elected server's take-over, where nothing was set back.
	txns, states int
}

// hastens runs one take-over in haste, on a store that is set back at a moment.
func hastens(t *testing.T, at moment) outcome {
	var out outcome
	synctest.Test(t, func(t *testing.T) {
		q := &quorum{Disk: memstore.NewDisk(), at: at}
		toA, toB := &way{quorum: q}, &way{quorum: q, counts: true}
		var set sync.WaitGroup
		a, err := takesOver(t, q.server(t, toA, led), 1, 3)
		if err != nil {
			t.Fatal(err)
		}
		raw := a.seal(a.Epoch(), a.Nonce())
		n := a.number
		b := &chained{}
		kept := uint64(0)
		q.happened = func(head uint64) {
			kept = head
			// The one that takes part again is on the deposed server's side.
			toA.isCut(false)
			set.Go(func() {
				err := tries(func() error { return a.Append(t.Context(), n, raw) })
				out.wentOn = err == nil && a.Confirm(t.Context()) == nil
			})
		}
		// It ends between two signs of life.
		time.Sleep(activeTTL/10 + activeTTL/20)
		toA.isCut(true)
		cut := time.Now()
		b, err = takesOver(t, q.server(t, toB, elect), 2, 6)
		if waited := time.Since(cut); err == nil && at.txn < 0 && waited > activeTTL/2 {
			t.Errorf("it was no take-over in haste: %v", waited)
		}
		set.Wait()
		if err != nil && !over(err) {
			t.Errorf("the elected server ends with: %v", err)
		}
		q.mu.Lock()
		out.happened, out.txns, out.states = q.setBack, q.txns, len(q.states)
		q.mu.Unlock()
		out.lost = out.happened && err != nil && b.acked > kept
		toA.isCut(true)
		toB.isCut(true)
		out.wentOn = out.wentOn || bytes.Equal(q.Holds(kvlog.Keys{}.Log(n)), raw)
		if at.rest == 0 {
			return
		}
		// The next server reads a log that is whole, with all that was kept and all that
		// was acknowledged since.
		c, errC := takesOver(t, q.server(t, &way{quorum: q}, led), 3, 0)
		switch {
		case errC != nil:
			t.Errorf("the next server ends with: %v", errC)
		case c.number <= kept, err == nil && c.number <= b.acked:
			t.Errorf("the next server opens with batch %d; %d were kept, and %d acknowledged by one that was in force", c.number, kept, b.acked)
		}
	})
	return out
}

// A store loses what its members had acknowledged, at every moment of a take-over in
// haste, back to every state from before it or on the way. A member that has lost
// something takes part after a whole active-ttl alone. So the server that was deposed
// in haste has ended its tenure in silence, whatever the store shows it, and the elected
// one has, too. The next one finds a log that is whole.
func TestStoreIsSetBackDuringHaste(t *testing.T) {
	whole := hastens(t, moment{txn: -1})
	if whole.txns < 6 {
		t.Fatalf("a take-over of %d transactions: %+v", whole.txns, whole)
	}
	runs, lost, wouldGoOn := 0, 0, 0
	for txn := range whole.txns {
		for state := range whole.states {
			for _, after := range []bool{false, true} {
				for _, ahead := range []bool{false, true} {
					at := moment{txn: txn, after: after, state: state, ahead: ahead, rest: activeTTL}
					t.Run(fmt.Sprintf("%+v", at), func(t *testing.T) {
						out := hastens(t, at)
						if !out.happened {
							return
						}
						runs++
						if out.wentOn {
							t.Error("the deposed server goes on, below what its successor acknowledged")
						}
						if out.lost {
							lost++
						}
						// The rest is what keeps it from that.
						if at.rest = 0; hastens(t, at).wentOn {
							wouldGoOn++
						}
					})
				}
			}
		}
	}
	t.Logf("%d moments; %d lost what was acknowledged, %d would let the deposed server go on without the rest", runs, lost, wouldGoOn)
	if lost == 0 || wouldGoOn == 0 {
		t.Error("nothing was lost, or nobody would go on: the moments mean nothing")
	}
}
