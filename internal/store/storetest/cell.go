package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/store"
)

// cell watches one cell over all its tenures: what was acknowledged must be
// found by every later replay.
type cell struct {
	t T
	p *Place
	// reader only looks.
	reader *Server

	mu sync.Mutex
	// acked holds the mark of the batch acknowledged under each number.
	acked map[uint64]uint64
	marks uint64
	nodes byte
}

func newCell(t T, p *Place) *cell {
	return &cell{t: t, p: p, reader: p.Server(t, How{ActiveTTL: Never}), acked: map[uint64]uint64{}}
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
	active, err := c.reader.Active(c.t.Context())
	if err != nil {
		c.t.Fatalf("active: %v", err)
	}
	if active == (store.Node{}) {
		return hasty
	}
	return active
}

// server comes in as a node that takes over at once. Its active-ttl only sets
// the pace at which it tries again.
func (c *cell) server() *Server {
	return c.p.Server(c.t, How{Hasty: true, ActiveTTL: 10 * time.Millisecond})
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
