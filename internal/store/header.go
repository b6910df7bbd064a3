package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
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

// body opens the envelope and checks the sum.
func body(raw []byte) ([]byte, Sum, error) {
	var format uint64
	var sum, inner []byte
	err := eachField(raw, func(f protowire.Number, number uint64, data []byte) {
		switch f {
		case 1:
			format = number
		case 2:
			sum = data
		case 3:
			inner = data
		}
	})
	if err != nil {
		return nil, Sum{}, err
	}
	if format != Format {
		return nil, Sum{}, fmt.Errorf("%w: format %d where %d was expected", ErrDamaged, format, Format)
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
