package etcdstore

import (
	"context"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	b := time.Now()
	s, err := OpenEmbedded(ctx, EmbeddedOptions{Dir: t.TempDir(), Token: "x", Clock: clock.Bubble()})
	if err != nil {
		t.Fatal(err)
	}
	t.Log("open", time.Since(b))
	first := func(e uint64, n store.Nonce) []byte {
		raw, _, _ := store.SealBatch(&recordpb.Batch{Epoch: e, Number: 1, Nonce: n[:]})
		return raw
	}
	ten, err := s.Claim(ctx, store.Node{ID: s.NodeID()}, store.Nonce{7}, first)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("claimed", time.Since(b))
	h, _ := store.HeaderOf(first(1, store.Nonce{7}))
	sum := h.Sum
	b = time.Now()
	for n := uint64(2); n < 500; n++ {
		nn := ten.Nonce()
		raw, s2, _ := store.SealBatch(&recordpb.Batch{Epoch: 1, Number: n, Nonce: nn[:], Previous: sum[:], Durable: n - 1})
		if err := ten.Append(ctx, n, raw); err != nil {
			t.Fatal(err)
		}
		sum = s2
	}
	t.Log("500 appends", time.Since(b))
	b = time.Now()
	for range 500 {
		if err := ten.Confirm(ctx); err != nil {
			t.Fatal(err)
		}
	}
	t.Log("500 confirms", time.Since(b))
	t.Log(ten.Usage(ctx))
	b = time.Now()
	t.Log(s.Close(), time.Since(b))
}
