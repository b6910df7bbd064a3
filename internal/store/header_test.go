package store

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/recordpb"
)

func sealed(t testing.TB) []byte {
	t.Helper()
	nonce := Nonce{1, 2, 3}
	raw, _, err := SealBatch(&recordpb.Batch{
		Epoch: 3, Number: 7, Previous: bytes.Repeat([]byte{9}, 32), Durable: 5, Nonce: nonce[:],
		Events: []*recordpb.Event{{Kind: recordpb.Kind_KIND_GRANTED, Token: 12, Label: "billing"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestHeaderOf(t *testing.T) {
	raw := sealed(t)
	h, err := HeaderOf(raw)
	if err != nil {
		t.Fatal(err)
	}
	want := Mark{Epoch: 3, Number: 7, Nonce: Nonce{1, 2, 3}}
	if h.Mark != want || h.Durable != 5 || !bytes.Equal(h.Previous, bytes.Repeat([]byte{9}, 32)) {
		t.Errorf("got %+v", h)
	}
	for i := range raw {
		harmed := bytes.Clone(raw)
		harmed[i] ^= 0x40
		if got, err := HeaderOf(harmed); err == nil {
			t.Errorf("byte %d changed and the header reads %+v", i, got)
		} else if !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d changed: %v, want ErrDamaged", i, err)
		}
		if _, err := HeaderOf(raw[:i]); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v, want ErrDamaged", i, err)
		}
	}
}

func TestHeaderNeedsNonce(t *testing.T) {
	raw, _, err := SealBatch(&recordpb.Batch{Epoch: 1, Number: 1, Nonce: []byte("short")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := HeaderOf(raw); !errors.Is(err, ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
}

// FuzzHeader: what opens whole has a header, and it says the same.
func FuzzHeader(f *testing.F) {
	f.Add(sealed(f))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := HeaderOf(raw)
		b, sum, whole := OpenBatch(raw)
		switch {
		case err != nil && !errors.Is(err, ErrDamaged):
			t.Errorf("%v is not ErrDamaged", err)
		case whole != nil && !errors.Is(whole, ErrDamaged):
			t.Errorf("%v is not ErrDamaged", whole)
		case whole == nil && err != nil && len(b.Nonce) == len(Nonce{}):
			t.Errorf("it opens and its header does not: %v", err)
		case whole == nil && err == nil:
			if h.Epoch != b.Epoch || h.Number != b.Number || h.Durable != b.Durable || !bytes.Equal(h.Previous, b.Previous) ||
				!bytes.Equal(h.Nonce[:], b.Nonce) || h.Sum != sum {
				t.Errorf("header %+v, batch %v", h, b)
			}
			sameEvents(t, b.Events, func(visit func(*recordpb.Event) error) error { return EachBatchEvent(raw, visit) })
		}
	})
}

// FuzzChunkHeader is the same for the parts of a snapshot.
func FuzzChunkHeader(f *testing.F) {
	raw, _, err := SealChunk(&recordpb.Chunk{Number: 9, Previous: []byte{1}, Index: 2, Last: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := ChunkHeaderOf(raw)
		c, sum, whole := OpenChunk(raw)
		if err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%v is not ErrDamaged", err)
		}
		if whole != nil {
			return
		}
		if err != nil {
			t.Fatalf("it opens and its header does not: %v", err)
		}
		if h.Number != c.Number || uint32(h.Index) != c.Index || h.Last != c.Last || !bytes.Equal(h.Previous, c.Previous) || h.Sum != sum {
			t.Errorf("header %+v, chunk %v", h, c)
		}
		sameEvents(t, c.Events, func(visit func(*recordpb.Event) error) error { return EachChunkEvent(raw, visit) })
	})
}

// sameEvents: one by one they are what they are together.
func sameEvents(t *testing.T, want []*recordpb.Event, each func(visit func(*recordpb.Event) error) error) {
	t.Helper()
	n := 0
	err := each(func(e *recordpb.Event) error {
		if n >= len(want) || !proto.Equal(e, want[n]) {
			t.Errorf("event %d is %v", n, e)
		}
		n++
		return nil
	})
	if err != nil || n != len(want) {
		t.Errorf("%d events, %v; there are %d", n, err, len(want))
	}
}

func TestEventsEnd(t *testing.T) {
	raw, _, err := SealChunk(&recordpb.Chunk{Events: []*recordpb.Event{{Token: 1}, {Token: 2}, {Token: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	stop, seen := errors.New("stop"), 0
	err = EachChunkEvent(raw, func(e *recordpb.Event) error {
		if seen++; e.Token == 2 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || seen != 2 {
		t.Errorf("%d visits, %v", seen, err)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		u           Usage
		tight, want bool
	}{
		{Usage{}, false, false},
		{Usage{Used: 39, Quota: 100}, false, false},
		{Usage{Used: 40, Quota: 100}, false, true},
		{Usage{Used: 79, Quota: 100}, false, true},
		{Usage{Used: 80, Quota: 100}, true, true},
		{Usage{Used: 1, Quota: 100, Free: FreeMin - 1}, true, false},
		{Usage{Used: 1, Quota: 100, Free: FreeMin}, false, false},
		{Usage{Used: 1 << 40}, false, false},
	} {
		if c.u.Tight() != c.tight || c.u.WantsSnapshot() != c.want {
			t.Errorf("%+v: tight %v, wants a snapshot %v", c.u, c.u.Tight(), c.u.WantsSnapshot())
		}
	}
}
