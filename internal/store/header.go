package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/recordpb"
)

// Header is what chains a batch and tells whose it is, read without its events.
type Header struct {
	Mark
	// Durable is the highest number its writer knew durable.
	Durable uint64
	// Previous is the sum of the batch before; nil in the first.
	Previous []byte
	// Sum is the batch's own.
	Sum Sum
}

// HeaderOf reads the header of a sealed batch and checks its sum. An error is
// ErrDamaged. It costs a hash and no decoding of events: a take-over reads every
// batch once for the chain and once for the table.
func HeaderOf(raw []byte) (Header, error) {
	body, sum, err := body(raw)
	if err != nil {
		return Header{}, err
	}
	h := Header{Sum: sum}
	var nonce []byte
	err = eachField(body, func(f protowire.Number, number uint64, data []byte) {
		switch f {
		case 1:
			h.Epoch = number
		case 2:
			h.Number = number
		case 3:
			h.Previous = data
		case 4:
			h.Durable = number
		case 5:
			nonce = data
		}
	})
	if err == nil && len(nonce) != len(h.Nonce) {
		err = fmt.Errorf("%w: a nonce of %d bytes", ErrDamaged, len(nonce))
	}
	copy(h.Nonce[:], nonce)
	return h, err
}

// ChunkHeader places a chunk in its snapshot.
type ChunkHeader struct {
	// Number of the batch after which the snapshot was taken, and its sum.
	Number   uint64
	Previous []byte
	// Index counts from 0.
	Index uint64
	Last  bool
	Sum   Sum
}

// ChunkHeaderOf reads the header of a sealed chunk and checks its sum. An error
// is ErrDamaged.
func ChunkHeaderOf(raw []byte) (ChunkHeader, error) {
	body, sum, err := body(raw)
	if err != nil {
		return ChunkHeader{}, err
	}
	h := ChunkHeader{Sum: sum}
	err = eachField(body, func(f protowire.Number, number uint64, data []byte) {
		switch f {
		case 1:
			h.Number = number
		case 2:
			h.Previous = data
		case 3:
			h.Index = number
		case 4:
			h.Last = number != 0
		}
	})
	return h, err
}

// EachBatchEvent visits the events of a batch whose header was read, in order, until
// visit returns an error. The event itself is reused after each visit, but what its
// fields point to is not. An error other than visit's is ErrDamaged.
func EachBatchEvent(raw []byte, visit func(*recordpb.Event) error) error {
	return eachEvent(raw, 6, visit)
}

// EachChunkEvent does the same for a part of a snapshot.
func EachChunkEvent(raw []byte, visit func(*recordpb.Event) error) error {
	return eachEvent(raw, 5, visit)
}

func eachEvent(raw []byte, field protowire.Number, visit func(*recordpb.Event) error) error {
	_, inner, err := envelope(raw)
	if err != nil {
		return err
	}
	var e recordpb.Event
	var failed error
	err = eachField(inner, func(f protowire.Number, _ uint64, data []byte) {
		if f != field || data == nil || failed != nil { // nil: not of the wire type
			return
		}
		if err := proto.Unmarshal(data, &e); err != nil {
			failed = fmt.Errorf("%w: not an event: %w", ErrDamaged, err)
			return
		}
		failed = visit(&e)
	})
	return cmp.Or(failed, err)
}

// envelope opens it without checking the sum.
func envelope(raw []byte) (sum, inner []byte, err error) {
	var format uint64
	err = eachField(raw, func(f protowire.Number, number uint64, data []byte) {
		switch f {
		case 1:
			format = number
		case 2:
			sum = data
		case 3:
			inner = data
		}
	})
	if err == nil && format != Format {
		err = fmt.Errorf("%w: format %d where %d was expected", ErrDamaged, format, Format)
	}
	return sum, inner, err
}

// body opens the envelope and checks the sum.
func body(raw []byte) ([]byte, Sum, error) {
	sum, inner, err := envelope(raw)
	if err != nil {
		return nil, Sum{}, err
	}
	computed := Sum(sha256.Sum256(inner))
	if !bytes.Equal(computed[:], sum) {
		return nil, Sum{}, fmt.Errorf("%w: the checksum does not fit", ErrDamaged)
	}
	return inner, computed, nil
}

func eachField(b []byte, visit func(f protowire.Number, number uint64, data []byte)) error {
	for len(b) > 0 {
		f, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: not a record: %w", ErrDamaged, protowire.ParseError(n))
		}
		b = b[n:]
		var number uint64
		var data []byte
		switch kind {
		case protowire.VarintType:
			number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(f, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: not a record: %w", ErrDamaged, protowire.ParseError(n))
		}
		visit(f, number, data)
		b = b[n:]
	}
	return nil
}
