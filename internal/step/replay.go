package step

import (
	"bytes"
	"fmt"
	"iter"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// chunkBytes is where a chunk of a snapshot is closed.
const chunkBytes = 512 << 10

// Replayed is a log as read: the table it gives, and where it ends.
type Replayed struct {
	table   *locktable.Table
	head    uint64
	sum     store.Sum
	epoch   uint64
	durable uint64
	Growth  Growth

	chunks uint32
	whole  bool
}

// Replay rebuilds the table of a tenure of epoch from its log, which read passes on: the
// chunks of the last snapshot and the batches behind it, with their numbers, and
// returns the number of the last. What does not fit is store.ErrDamaged and names the
// batch.
func Replay(read func(chunk, batch func(uint64, []byte) error) (head uint64, err error), epoch uint64, limits bounds.Limits) (*Replayed, error) {
	r := newReplayed(limits)
	head, err := read(r.chunk, r.batch)
	if err == nil {
		err = r.check(head, epoch)
	}
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	r.table.FinishReplay()
	return r, nil
}

func newReplayed(limits bounds.Limits) *Replayed {
	r := &Replayed{table: locktable.New(limits), whole: true}
	r.table.Replaying()
	return r
}

// check holds what was read, up to head, against a tenure of epoch.
func (r *Replayed) check(head, epoch uint64) error {
	switch {
	case !r.whole:
		return fmt.Errorf("%w: the snapshot of batch %d ends early", store.ErrDamaged, r.head)
	case head != r.head:
		return fmt.Errorf("%w: the log ends with batch %d, %d was read last", store.ErrDamaged, head, r.head)
	case head < r.durable:
		return fmt.Errorf("%w: batch %d is missing, %d was known durable", store.ErrDamaged, head+1, r.durable)
	case head == 0:
		return fmt.Errorf("%w: a tenure without a log", store.ErrDamaged)
	case r.table.Epoch() >= epoch:
		return fmt.Errorf("%w: the log goes on to epoch %d and the tenure is of epoch %d: its key was set back",
			store.ErrDamaged, r.table.Epoch(), epoch)
	}
	return nil
}

func (r *Replayed) chunk(n uint64, raw []byte) error {
	c, err := store.ChunkHeaderOf(raw)
	switch {
	case err != nil:
		return fmt.Errorf("snapshot of batch %d: %w", n, err)
	case c.Number != n || c.Index != uint64(r.chunks) || r.chunks > 0 && r.whole:
		return fmt.Errorf("snapshot of batch %d: %w: chunk %d of %d where chunk %d was expected",
			n, store.ErrDamaged, c.Index, c.Number, r.chunks)
	}
	r.chunks++
	r.Growth.Snapshot += int64(len(raw))
	r.whole, r.head, r.durable = c.Last, n, n
	copy(r.sum[:], c.Previous)
	return store.EachChunkEvent(raw, r.applyTo(n))
}

func (r *Replayed) batch(n uint64, raw []byte) error {
	b, err := store.HeaderOf(raw)
	switch {
	case err != nil:
		return fmt.Errorf("batch %d: %w", n, err)
	case b.Number != n || n != r.head+1:
		return fmt.Errorf("batch %d: %w: it says %d, and follows %d", n, store.ErrDamaged, b.Number, r.head)
	case b.Epoch < r.epoch:
		return fmt.Errorf("batch %d: %w: epoch %d follows epoch %d", n, store.ErrDamaged, b.Epoch, r.epoch)
	case r.head > 0 && !bytes.Equal(b.Previous, r.sum[:]):
		return fmt.Errorf("batch %d: %w: it does not follow the batch before", n, store.ErrDamaged)
	}
	r.head, r.sum, r.epoch, r.durable = n, b.Sum, b.Epoch, max(r.durable, b.Durable)
	r.Growth.Add(len(raw))
	return store.EachBatchEvent(raw, r.applyTo(n))
}

func (r *Replayed) applyTo(n uint64) func(*recordpb.Event) error {
	return func(e *recordpb.Event) error {
		if err := r.table.Apply(e); err != nil {
			return fmt.Errorf("batch %d: %w: %w", n, store.ErrDamaged, err)
		}
		return nil
	}
}

// Chunks seals a frozen table in portions.
func (s *Snapshot) Chunks() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		c := &recordpb.Chunk{Number: s.UpTo, Previous: s.sum[:]}
		size := 0
		for e := range s.frozen.Events() {
			if size >= chunkBytes {
				if !yield(s.seal(c)) {
					return
				}
				c.Index++
				c.Events, size = nil, 0
			}
			c.Events = append(c.Events, e)
			size += proto.Size(e) + 8
		}
		c.Last = true
		yield(s.seal(c))
	}
}

func (s *Snapshot) seal(c *recordpb.Chunk) []byte {
	raw, _, err := store.SealChunk(c)
	if err != nil {
		panic(fmt.Errorf("step: seal chunk %d of the snapshot of batch %d: %w", c.Index, c.Number, err))
	}
	s.Bytes += int64(len(raw))
	return raw
}
