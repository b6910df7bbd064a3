package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/store"
)

// chunkEvents is how many events go into one chunk.
const chunkEvents = 7

// cell watches one cell over all its tenures: what was acknowledged must be
// found by every later replay.
type cell struct {
	t T
	p *Place
	// eye only looks.
	eye *Server

	mu sync.Mutex
	// acked holds the mark of the batch acknowledged under each number.
	acked map[uint64]uint64
	marks uint64
	nodes byte
}

func newCell(t T, p *Place) *cell {
	return &cell{t: t, p: p, eye: p.Server(t, How{ActiveTTL: Never}), acked: map[uint64]uint64{}}
}

// mark draws a number that no other batch carries.
func (c *cell) mark() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marks++
	return c.marks
}

func (c *cell) acknowledge(n, mark uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was, ok := c.acked[n]; ok && was != mark {
		c.t.Errorf("batch %d was acknowledged twice, with mark %d and then %d", n, was, mark)
	}
	c.acked[n] = mark
}

// node names a new node.
func (c *cell) node() store.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes++
	return store.Node{ID: [16]byte{c.nodes}, Link: fmt.Sprintf("127.0.0.1:%d", c.nodes)}
}

// hasty stands for whichever node is active: a server that takes over at once
// does so from its own node.
var hasty = store.Node{ID: [16]byte{0xff}, Link: "127.0.0.1:255"}

// become returns the node to claim as.
func (c *cell) become(self store.Node) store.Node {
	if self != hasty {
		return self
	}
	active, err := c.eye.Active(c.t.Context())
	if err != nil {
		c.t.Fatalf("active: %v", err)
	}
	if active == (store.Node{}) {
		return hasty
	}
	return active
}

// server comes in as a node that takes over at once.
func (c *cell) server() *Server { return c.p.Server(c.t, How{Hasty: true, ActiveTTL: Never}) }

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

// claim waits for a tenure through srv.
func (c *cell) claim(srv *Server, self store.Node) *writer {
	c.t.Helper()
	w, err := c.tryClaim(c.t.Context(), srv, self)
	if err != nil {
		c.t.Fatalf("claim: %v", err)
	}
	return w
}

func (c *cell) tryClaim(ctx context.Context, srv *Server, self store.Node) (*writer, error) {
	w := &writer{cell: c, srv: srv, landed: map[uint64]bool{}, raw: map[uint64][]byte{}}
	var nonce store.Nonce
	binary.BigEndian.PutUint64(nonce[:], c.mark())
	first := func(epoch uint64, nonce store.Nonce) []byte {
		mark := c.mark()
		raw, sum := c.seal(epoch, nonce, 1, nil, 0, mark)
		w.last, w.sum, w.state = 1, sum, []uint64{mark}
		return raw
	}
	ten, err := srv.Claim(ctx, c.become(self), nonce, first)
	if err != nil {
		return nil, err
	}
	if ten.Nonce() != nonce {
		c.t.Errorf("the tenure's nonce is %x, claimed with %x", ten.Nonce(), nonce)
	}
	w.ten = ten
	if ten.Opened() {
		w.opened = true
		w.acknowledged(1)
	} else {
		w.last, w.sum, w.state = 0, nil, nil
	}
	return w, nil
}

func (c *cell) seal(epoch uint64, nonce store.Nonce, n uint64, previous []byte, durable, mark uint64) (raw, sum []byte) {
	raw, s, err := store.SealBatch(&recordpb.Batch{
		Epoch: epoch, Number: n, Previous: previous, Durable: durable, Nonce: nonce[:],
		Events: []*recordpb.Event{{Kind: recordpb.Kind_KIND_FLOOR, Token: mark}},
	})
	if err != nil {
		c.t.Fatalf("seal: %v", err)
	}
	return raw, s[:]
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

// check holds a replayed state against what was acknowledged.
func (c *cell) check(state []uint64) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(c.acked)) {
		if n > uint64(len(state)) {
			c.t.Errorf("batch %d was acknowledged and is gone: replay ends at %d", n, len(state))
			return
		}
		if state[n-1] != c.acked[n] {
			c.t.Errorf("batch %d was acknowledged with mark %d and now carries %d", n, c.acked[n], state[n-1])
		}
	}
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

// ends fails the test unless err is one of want.
func ends(t T, doing string, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	t.Errorf("%s: got %v, want one of %v", doing, err, want)
}

// same fails the test unless the store shows what it showed.
func same(t T, after string, before, now map[string]string) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if now[key] != before[key] {
			t.Errorf("after %s: %s was %.80q and is %.80q", after, key, before[key], now[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if _, ok := before[key]; !ok {
			t.Errorf("after %s: %s is new", after, key)
		}
	}
}

// flip changes one bit of a sealed record's body.
func flip(raw []byte) []byte {
	raw = bytes.Clone(raw)
	raw[len(raw)-1] ^= 1
	return raw
}
