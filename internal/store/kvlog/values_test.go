package kvlog

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/store"
)

func TestKeys(t *testing.T) {
	k := Keys{Prefix: "cells/a/"}
	last := ""
	for _, n := range []uint64{0, 1, 9, 10, 99, 100, 1 << 40, math.MaxUint64} {
		key := k.Log(n)
		if key <= last || key >= k.LogEnd() {
			t.Errorf("the key of batch %d, %q, does not sort behind %q and before the end", n, key, last)
		}
		if got, ours := k.logNumber(key); !ours || got != n {
			t.Errorf("batch %d reads back as %d, %v", n, got, ours)
		}
		folder := k.Chunks(n, n/2)
		for _, i := range []int{0, 7, 1<<31 - 1} {
			key := k.Chunk(folder, i)
			if got, ours := k.folderOf(key); !ours || got != folder {
				t.Errorf("chunk %q lies in %q, %v", key, got, ours)
			}
			if key < folder || key >= k.ChunksEnd(folder) {
				t.Errorf("chunk %q does not lie in [%q, %q)", key, folder, k.ChunksEnd(folder))
			}
		}
		last = key
	}
	for _, key := range []string{"", "log/", "log/1", k.Prefix + "log/1", k.Prefix + "log/" + strings.Repeat("x", 20), k.Prefix + "log/99999999999999999999"} {
		if n, ours := k.logNumber(key); ours {
			t.Errorf("%q is taken for batch %d", key, n)
		}
		if folder, ours := k.folderOf(key); ours {
			t.Errorf("%q is taken for a chunk in %q", key, folder)
		}
	}
}

func TestTenureValue(t *testing.T) {
	node := store.Node{ID: [16]byte{1, 2}, Link: "h:1", HTTP: "h:2"}
	nonce := store.Nonce{7}
	s := &Store{opts: Options{ActiveTTL: 4500 * time.Millisecond}}
	raw := s.tenureOf(5, node, nonce)
	v, err := decodeTenure(raw)
	if err != nil || v.Epoch != 5 || v.node() != node || !v.sameNonce(nonce) || v.sameNonce(store.Nonce{8}) || v.ActiveTTL != span(s.opts.ActiveTTL) {
		t.Errorf("got %+v, %v", v, err)
	}
	if !bytes.Contains(raw, []byte(`"active_ttl":"4.5s"`)) {
		t.Errorf("not for people to read: %s", raw)
	}
	v, err = decodeTenure(s.tenureOf(5, store.Node{}, nonce))
	if err != nil || v.node() != (store.Node{}) || !v.sameNonce(nonce) || v.ActiveTTL != 0 {
		t.Errorf("resigned: got %+v, %v", v, err)
	}
	// What the version before wrote.
	v, err = decodeTenure([]byte(`{"format":1,"epoch":5,"node":"01020000000000000000000000000000","link":"h:1","http":"h:2",` +
		`"nonce":"07000000000000000000000000000000"}`))
	if err != nil || v.node() != node || !v.sameNonce(nonce) || v.ActiveTTL != 0 {
		t.Errorf("of the version before: got %+v, %v", v, err)
	}
	for _, bad := range []string{`"-3s"`, `"3"`, `3`, `"soon"`} {
		raw := []byte(`{"format":1,"epoch":5,"nonce":"07000000000000000000000000000000","active_ttl":` + bad + `}`)
		if _, err := decodeTenure(raw); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("active_ttl %s: %v", bad, err)
		}
	}
}

// FuzzValues: whatever lies under the two keys, reading it ends in a value or
// in damage.
func FuzzValues(f *testing.F) {
	f.Add((&Store{opts: Options{ActiveTTL: time.Minute}}).tenureOf(1, store.Node{ID: [16]byte{1}}, store.Nonce{2}))
	f.Add(encode(pointerValue{Format: 1, Batch: 3, Epoch: 2, Sum: make([]byte, 32), Chunks: 1, ChunksSum: make([]byte, 32)}))
	f.Add([]byte(`{"format":1,"epoch":1,"node":"zz"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if v, err := decodeTenure(raw); err == nil {
			again, err := decodeTenure(encode(v))
			if err != nil || again.Epoch != v.Epoch || again.node() != v.node() || !bytes.Equal(again.Nonce, v.Nonce) || again.ActiveTTL != v.ActiveTTL {
				t.Errorf("%+v reads back as %+v, %v", v, again, err)
			}
		} else if !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%v is not ErrDamaged", err)
		}
		if _, err := decodePointer(Pair{Value: raw, Rev: 1}); err != nil && !errors.Is(err, store.ErrDamaged) {
			t.Errorf("%v is not ErrDamaged", err)
		}
	})
}
