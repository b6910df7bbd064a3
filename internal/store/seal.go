package store

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/recordpb"
)

// Format is the version of the envelope and of the records in it.
const Format = 1

// Sum is the checksum that chains a batch to the one before.
type Sum [sha256.Size]byte

// SealBatch marshals b, whose Previous, Epoch, Number, Nonce and Durable are
// set, and returns the bytes to keep and their sum.
func SealBatch(b *recordpb.Batch) ([]byte, Sum, error) { return seal(b) }

// SealChunk does the same for a part of a snapshot.
func SealChunk(c *recordpb.Chunk) ([]byte, Sum, error) { return seal(c) }

func seal(m proto.Message) ([]byte, Sum, error) {
	body, err := proto.Marshal(m)
	if err != nil {
		return nil, Sum{}, fmt.Errorf("seal a record: %w", err)
	}
	sum := Sum(sha256.Sum256(body))
	raw, err := proto.Marshal(&recordpb.Sealed{Format: Format, Sum: sum[:], Body: body})
	if err != nil {
		return nil, Sum{}, fmt.Errorf("seal a record: %w", err)
	}
	return raw, sum, nil
}

// OpenBatch reads what SealBatch wrote. An error is ErrDamaged, and names what
// does not fit.
func OpenBatch(raw []byte) (*recordpb.Batch, Sum, error) {
	var b recordpb.Batch
	sum, err := open(raw, &b)
	return &b, sum, err
}

// OpenChunk reads what SealChunk wrote.
func OpenChunk(raw []byte) (*recordpb.Chunk, Sum, error) {
	var c recordpb.Chunk
	sum, err := open(raw, &c)
	return &c, sum, err
}

func open(raw []byte, m proto.Message) (Sum, error) {
	var s recordpb.Sealed
	if err := proto.Unmarshal(raw, &s); err != nil {
		return Sum{}, fmt.Errorf("%w: not an envelope: %w", ErrDamaged, err)
	}
	if s.Format != Format {
		return Sum{}, fmt.Errorf("%w: format %d where %d was expected", ErrDamaged, s.Format, Format)
	}
	sum := Sum(sha256.Sum256(s.Body))
	if !bytes.Equal(sum[:], s.Sum) {
		return Sum{}, fmt.Errorf("%w: the checksum does not fit", ErrDamaged)
	}
	if err := proto.Unmarshal(s.Body, m); err != nil {
		return Sum{}, fmt.Errorf("%w: not a record: %w", ErrDamaged, err)
	}
	return sum, nil
}

// Mark tells one batch from every other: no two differ in what they hold and
// agree in this.
type Mark struct {
	Epoch, Number uint64
	Nonce         Nonce
}
