package memstore_test

import (
	"context"
	"testing"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// paged notes how large the pages are that are read.
type paged struct {
	*memstore.Disk
	pages []pageSize
}

type pageSize struct{ limit, pairs, bytes int }

func (p *paged) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	page, err := p.Disk.Range(ctx, q)
	size := pageSize{limit: q.Limit, pairs: len(page.Pairs)}
	for _, x := range page.Pairs {
		size.bytes += len(x.Value)
	}
	p.pages = append(p.pages, size)
	return page, err
}

// replayed writes a log of as many batches with labels of these sizes, and returns
// in which pages a take-over reads it.
func replayed(t *testing.T, batches int, label func(n uint64) int) []pageSize {
	t.Helper()
	disk := &paged{Disk: memstore.NewDisk()}
	s := kvlog.New(disk, kvlog.Options{Clock: clock.System(), Sole: true})
	t.Cleanup(s.Close)
	var sum store.Sum
	batch := func(epoch uint64, nonce store.Nonce, n uint64) []byte {
		b := &recordpb.Batch{Epoch: epoch, Number: n, Nonce: nonce[:], Durable: n - 1}
		if n > 1 {
			b.Previous = append([]byte(nil), sum[:]...)
		}
		b.Events = []*recordpb.Event{{Label: string(make([]byte, label(n)))}}
		raw, its, err := store.SealBatch(b)
		if err != nil {
			t.Fatal(err)
		}
		sum = its
		return raw
	}
	first := func(epoch uint64, nonce store.Nonce) []byte { return batch(epoch, nonce, 1) }
	node := store.Node{ID: [16]byte{1}}
	ten, err := s.Claim(t.Context(), node, store.Nonce{1}, first)
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(2); n <= uint64(batches); n++ {
		if err := ten.Append(t.Context(), n, batch(1, ten.Nonce(), n)); err != nil {
			t.Fatal(err)
		}
	}
	next, err := s.Claim(t.Context(), node, store.Nonce{2}, first)
	if err != nil {
		t.Fatal(err)
	}
	disk.pages = nil
	visited := func(uint64, []byte) error { return nil }
	if head, err := next.Replay(t.Context(), visited, visited); err != nil || head != uint64(batches) {
		t.Fatalf("head %d, %v", head, err)
	}
	return disk.pages
}

// A take-over is not held up by many small batches: each page is a way to the store
// and back, and while it goes nobody is served.
func TestSmallBatchesAreReadInLargePages(t *testing.T) {
	const batches = 10_000 // after as many a snapshot is made
	if pages := replayed(t, batches, func(uint64) int { return 100 }); len(pages) > batches/100 {
		t.Errorf("%d batches were read in %d pages", batches, len(pages))
	}
}

// Large ones are not: a page must fit into memory, and arrive in time.
func TestLargeBatchesAreReadInSmallPages(t *testing.T) {
	const large = 64 << 10
	pages := replayed(t, 1000, func(n uint64) int {
		if n <= 500 {
			return 100
		}
		return large
	})
	met := false
	for _, p := range pages {
		if met && p.limit > 16 {
			t.Errorf("after large batches, up to %d are read at once", p.limit)
		}
		met = met || p.bytes > 16*large
	}
	if n := len(pages); !met || pages[n-1].limit != 16 {
		t.Errorf("read in %v", pages)
	}
}
