package kvlog

import (
	"math"
	"testing"

	"github.com/pawlproject/pawl/internal/store"
)

// C52: counters that pass 2^31, 2^32, 2^53 or 2^63, or gain a digit, neither turn
// negative nor sort as text does. The next number's key sorts after the last, and every
// number reads back as it was written.
func TestNumbersPassEveryBoundary(t *testing.T) {
	k := Keys{Prefix: "/pawl/a/"}
	edges := []uint64{1 << 31, 1 << 32, 1 << 53, 1 << 62, 1 << 63, math.MaxUint64 - 2}
	for p := uint64(10); p < math.MaxUint64/10; p *= 10 {
		edges = append(edges, p)
	}
	for _, edge := range edges {
		last := ""
		for n := edge - 2; n <= edge+1; n++ {
			key := k.Log(n)
			if key <= last || key >= k.LogEnd() {
				t.Errorf("%d: %q does not lie behind %q", n, key, last)
			}
			if got, ours := k.logNumber(key); !ours || got != n {
				t.Errorf("%d is read as %d", n, got)
			}
			last = key
			raw := (&Store{}).tenureOf(n, store.Node{ID: [16]byte{1}}, store.Nonce{2})
			if v, err := decodeTenure(raw); err != nil || v.Epoch != n {
				t.Errorf("epoch %d is read as %d, %v", n, v.Epoch, err)
			}
			raw = encode(pointerValue{Format: 1, Batch: n, Epoch: n, Sum: make([]byte, 32), Chunks: 1, ChunksSum: make([]byte, 32)})
			if v, err := decodePointer(Pair{Value: raw, Rev: 1}); err != nil || v.Batch != n || v.Epoch != n {
				t.Errorf("a snapshot after batch %d of epoch %d is read as %d of %d, %v", n, n, v.Batch, v.Epoch, err)
			}
		}
	}
}
