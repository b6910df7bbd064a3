package kvlog

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/pawlproject/pawl/internal/store"
)

// tenureValue is the value of the tenure key. JSON, so that an operator who looks into
// the store with its own tools can read who is active.
type tenureValue struct {
	Format int     `json:"format"`
	Epoch  uint64  `json:"epoch"`
	Node   hexText `json:"node"`
	Link   string  `json:"link,omitempty"`
	HTTP   string  `json:"http,omitempty"`
	Nonce  hexText `json:"nonce"`
	// ActiveTTL is that of the server whose tenure it is: by this a standby waits.
	// Absent: written by a version that did not say.
	ActiveTTL span `json:"active_ttl,omitzero"`
	// Member is the store's member inside that server; absent: it has none.
	Member uint64 `json:"member,string,omitempty"`
}

// pointerValue is what the snapshot key holds.
type pointerValue struct {
	Format int `json:"format"`
	// Batch after which the snapshot was taken, in which epoch.
	Batch uint64 `json:"batch"`
	Epoch uint64 `json:"epoch"`
	// Sum of that batch, how many chunks there are, and the sum of their sums.
	Sum       hexText `json:"sum"`
	Chunks    int     `json:"chunks"`
	ChunksSum hexText `json:"chunks_sum"`
}

type hexText []byte

func (h hexText) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h), nil }

func (h *hexText) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	*h = raw
	return err
}

// span is written as Go writes it: 3s.
type span time.Duration

func (d span) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *span) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = span(v)
	return err
}

func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("kvlog: marshal %T: %v", v, err)) // no field of ours can fail
	}
	return raw
}

func (s *Store) tenureOf(epoch uint64, self store.Node, nonce store.Nonce) []byte {
	v := tenureValue{Format: store.Format, Epoch: epoch, Link: self.Link, HTTP: self.HTTP, Nonce: nonce[:]}
	if self != (store.Node{}) {
		v.Node, v.ActiveTTL = self.ID[:], span(s.opts.ActiveTTL)
		if s.opts.Members != nil {
			v.Member = s.opts.Members.Own()
		}
	}
	return encode(v)
}

func decodeTenure(raw []byte) (tenureValue, error) {
	var v tenureValue
	if err := decode(raw, &v, "tenure"); err != nil {
		return v, err
	}
	if v.Format != store.Format {
		return v, fmt.Errorf("%w: the tenure has format %d where %d was expected", store.ErrDamaged, v.Format, store.Format)
	}
	if v.Epoch == 0 || v.Epoch == math.MaxUint64 || len(v.Nonce) != len(store.Nonce{}) || v.ActiveTTL < 0 {
		return v, fmt.Errorf("%w: the tenure does not read as one: %.200q", store.ErrDamaged, raw)
	}
	return v, nil
}

// node of the tenure; the zero Node when it was resigned.
func (v tenureValue) node() store.Node {
	if len(v.Node) == 0 {
		return store.Node{}
	}
	n := store.Node{Link: v.Link, HTTP: v.HTTP}
	copy(n.ID[:], v.Node)
	return n
}

func (v tenureValue) sameNonce(n store.Nonce) bool { return bytes.Equal(v.Nonce, n[:]) }

func decodePointer(p Pair) (pointerValue, error) {
	var v pointerValue
	if p.Rev == 0 {
		return v, nil
	}
	if err := decode(p.Value, &v, "snapshot"); err != nil {
		return v, err
	}
	if v.Format != store.Format {
		return v, fmt.Errorf("%w: the snapshot's key has format %d where %d was expected", store.ErrDamaged, v.Format, store.Format)
	}
	if v.Batch == 0 || v.Chunks == 0 || len(v.Sum) != len(store.Sum{}) {
		return v, fmt.Errorf("%w: the snapshot's key does not read as one: %.200q", store.ErrDamaged, p.Value)
	}
	return v, nil
}

func decode(raw []byte, v any, what string) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%w: the %s's key does not read as one: %w", store.ErrDamaged, what, err)
	}
	return nil
}
