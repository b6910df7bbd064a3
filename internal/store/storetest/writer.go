package storetest

import (
	"iter"
	"slices"
	"sync"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/store"
)

// chunkEvents is how many events go into one chunk.
const chunkEvents = 7

// writer is a cell's server during one tenure, as far as the log goes.
type writer struct {
	*cell
	srv *Server
	ten store.Tenure
	// opening is the number of the opening batch once closed.
	opening uint64
	opened  bool

	mu sync.Mutex
	// last is the number of the last batch closed, sum its sum.
	last uint64
	sum  []byte
	// durable is the last number up to which all were acknowledged.
	durable uint64
	landed  map[uint64]bool
	// state holds the mark of each batch, in order, as replay and appends gave it.
	state []uint64
	raw   map[uint64][]byte
}

// takeOver claims at once, replays and opens.
func (c *cell) takeOver() *writer {
	c.t.Helper()
	w := c.claim(c.server(), hasty)
	w.begin()
	return w
}

// begin replays and opens, unless the tenure began a fresh cell.
func (w *writer) begin() {
	w.t.Helper()
	if w.ten.Opened() {
		return
	}
	if err := w.replay(); err != nil {
		w.t.Fatalf("replay: %v", err)
	}
	if err := w.open(); err != nil {
		w.t.Fatalf("open: %v", err)
	}
}

// replay reads the cell and holds it against what was acknowledged.
func (w *writer) replay() error {
	w.t.Helper()
	var state []uint64
	var last uint64
	var sum []byte
	chunk := func(n uint64, raw []byte) error {
		ch, _, err := store.OpenChunk(raw)
		if err != nil {
			return err
		}
		for _, e := range ch.Events {
			state = append(state, e.Token)
		}
		last, sum = n, ch.Previous
		return nil
	}
	batch := func(n uint64, raw []byte) error {
		b, s, err := store.OpenBatch(raw)
		if err != nil {
			return err
		}
		if n != last+1 {
			w.t.Errorf("replay visits batch %d after %d", n, last)
		}
		last, sum = n, s[:]
		state = append(state, b.Events[0].Token)
		return nil
	}
	head, err := w.ten.Replay(w.t.Context(), chunk, batch)
	if err != nil {
		return err
	}
	if head != last || uint64(len(state)) != head {
		w.t.Errorf("replay ends at %d having visited up to %d, with a state of %d batches", head, last, len(state))
	}
	w.cell.check(state)
	w.last, w.sum, w.state = head, sum, state
	return nil
}

// next closes a batch.
func (w *writer) next() (n uint64, raw []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	mark := w.mark()
	n = w.last + 1
	raw, w.sum = w.seal(w.ten.Epoch(), w.ten.Nonce(), n, w.sum, w.durable, mark)
	w.last = n
	w.raw[n] = raw
	w.state = append(w.state, mark)
	return n, raw
}

// open closes the opening batch, unless an earlier try did, and lands it; what
// was replayed is durable with it.
func (w *writer) open() error {
	if w.opening == 0 {
		w.durable = w.last
		w.opening, _ = w.next()
	}
	if err := w.ten.Open(w.t.Context(), w.opening, w.raw[w.opening]); err != nil {
		return err
	}
	w.opened = true
	w.durable = w.opening
	for i, mark := range w.state[:w.opening] {
		w.cell.acknowledge(uint64(i+1), mark)
	}
	return nil
}

// send appends batch n, closed before.
func (w *writer) send(n uint64) error {
	w.mu.Lock()
	raw := w.raw[n]
	w.mu.Unlock()
	err := w.ten.Append(w.t.Context(), n, raw)
	if err == nil {
		w.acknowledged(n)
	}
	return err
}

// acknowledged takes in that a batch landed, and passes on what is durable now.
func (w *writer) acknowledged(n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.landed[n] = true
	for w.landed[w.durable+1] {
		w.durable++
		w.cell.acknowledge(w.durable, w.state[w.durable-1])
	}
}

// append closes a batch and lands it.
func (w *writer) append() {
	w.t.Helper()
	n, _ := w.next()
	if err := w.send(n); err != nil {
		w.t.Fatalf("append %d: %v", n, err)
	}
}

func (w *writer) appendMany(count int) {
	w.t.Helper()
	for range count {
		w.append()
	}
}

// chunks cuts the state after batch m into a snapshot.
func (w *writer) chunks(m uint64) iter.Seq[[]byte] {
	w.mu.Lock()
	state := slices.Clone(w.state[:m])
	raw := w.raw[m]
	w.mu.Unlock()
	if raw == nil {
		raw = w.p.Batch(w.t, m)
	}
	h, err := store.HeaderOf(raw)
	if err != nil {
		w.t.Fatalf("batch %d: %v", m, err)
	}
	return func(yield func([]byte) bool) {
		for i := 0; i*chunkEvents < len(state); i++ {
			end := min((i+1)*chunkEvents, len(state))
			c := &recordpb.Chunk{Number: m, Previous: h.Sum[:], Index: uint32(i), Last: end == len(state)}
			for _, mark := range state[i*chunkEvents : end] {
				c.Events = append(c.Events, &recordpb.Event{Kind: recordpb.Kind_KIND_FLOOR, Token: mark})
			}
			raw, _, err := store.SealChunk(c)
			if err != nil {
				w.t.Fatalf("seal: %v", err)
			}
			if !yield(raw) {
				return
			}
		}
	}
}

// snapshot takes one after the last durable batch.
func (w *writer) snapshot() error {
	w.mu.Lock()
	m := w.durable
	w.mu.Unlock()
	return w.ten.Snapshot(w.t.Context(), m, w.chunks(m))
}
