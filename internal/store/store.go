package store

import (
	"context"
	"errors"
	"iter"
	"time"
)

// InFlight is how many batches may be on their way at once: batch n is sent only when
// batch n−InFlight, and all before it, are durable. A claimant cuts what it finds
// behind the first hole within this distance.
const InFlight = 4

// ActiveTTLDefault is how long a standby waits for a sign of life of the active
// server when nothing else was said.
const ActiveTTLDefault = 3 * time.Second

// BatchMax bounds the bytes of a batch and of a chunk of a snapshot.
const BatchMax = 1 << 20

var (
	// ErrFenced: another tenure is in force. The caller's is over.
	ErrFenced = errors.New("store: the tenure is over")
	// ErrDamaged: what was known durable is missing or changed. The error names
	// the batch; the cell must not serve.
	ErrDamaged = errors.New("store: damaged")
	// ErrRolledBack: the store shows a state older than one it acknowledged.
	ErrRolledBack = errors.New("store_rolled_back")
	// ErrMoved: a log cannot be read on from a Position. A snapshot has replaced what
	// follows it, and the whole must be read; or, where the error is ErrRolledBack as
	// well, what was read up to there is not in the log any more.
	ErrMoved = errors.New("store: the log does not go on from where it was read to")
	// ErrFull: the store takes no more writes until room is made.
	ErrFull = errors.New("store: full")
)

// Nonce makes a tenure unlike any other; 128 random bits.
type Nonce [16]byte

// Node is a server as the others see it. Its ID is drawn once and kept in the data
// folder; Link and HTTP are the addresses for clients. The zero Node means that the
// tenure was resigned.
type Node struct {
	ID         [16]byte
	Link, HTTP string
}

// Store is where a cell's log lives.
type Store interface {
	// Claim waits until it may take over, and takes the tenure by compare-and-swap. On
	// a store without a cell it writes the tenure and log/1 = first(epoch, nonce) in
	// one step; Tenure.Opened is then true and Open must not be called. It returns when
	// ctx ends.
	Claim(ctx context.Context, self Node, nonce Nonce, first func(epoch uint64, nonce Nonce) []byte) (Tenure, error)
	// Active names the server whose tenure is in force; the zero Node when
	// there is none.
	Active(ctx context.Context) (Node, error)
	// Follow reads the log on from a position without a tenure, up to its end or to
	// the first hole: a standby follows so while another server writes. From the zero
	// Position it visits the chunks of the snapshot first, and without a cell nothing.
	// What it visited is read, but a snapshot only as a whole; the next call goes on
	// from there. ErrMoved: begin
	// anew from the zero Position. ErrDamaged: what a take-over would find. It claims
	// nothing and writes nothing. An error of chunk or batch ends it and is returned,
	// as it is or as ErrMoved.
	Follow(ctx context.Context, from Position, chunk, batch func(n uint64, b []byte) error) error
}

// Position is how far a log was read: up to batch Number, which has this Sum, and
// through it all before. The zero Position: nothing was read.
type Position struct {
	Number uint64
	Sum    Sum
}

// Published describes the present snapshot; the zero Published: there is none.
type Published struct {
	// Batch is the one after which it was taken.
	Batch  uint64
	Chunks int
}

// Tenure is one server's time as the active one. Its methods may be called
// side by side.
type Tenure interface {
	Epoch() uint64
	Nonce() Nonce
	// Opened: this tenure began a fresh cell.
	Opened() bool
	// Replay visits the chunks of the snapshot (n is the snapshot's batch),
	// then the batches after it; head is the last one before the first hole.
	// An error of chunk or batch ends it and is returned as it is.
	Replay(ctx context.Context, chunk, batch func(n uint64, b []byte) error) (head uint64, err error)
	// Resume is Replay for a server that has followed: it visits the batches after
	// from alone. The check of what it visits, and of its place behind from, is the
	// same. ErrMoved, for whatever does not fit: call Replay, which finds out what
	// that is; the tenure is not over.
	Resume(ctx context.Context, from Position, batch func(n uint64, b []byte) error) (head uint64, p Published, err error)
	// Open cuts what lies behind head = n−1 and lands the opening batch n.
	// Retried as Append is.
	Open(ctx context.Context, n uint64, batch []byte) error
	// Append lands batch n; up to InFlight may be on their way. nil: landed;
	// it is durable only when every batch before it in this tenure has landed
	// too. ErrFenced: the tenure is over. ErrDamaged, ErrRolledBack: end the
	// tenure and alarm. Anything else: unknown; call again with the same n and
	// the same bytes, or end the tenure.
	Append(ctx context.Context, n uint64, batch []byte) error
	// Confirm returns nil when the tenure was in force at some moment after the
	// call began.
	Confirm(ctx context.Context) error
	// Snapshot publishes chunks as the state after batch upTo, which is
	// durable. The last 2·InFlight batches up to it are kept.
	Snapshot(ctx context.Context, upTo uint64, chunks iter.Seq[[]byte]) error
	Usage(ctx context.Context) (Usage, error)
	// Lost is closed when the tenure seems over: a hint, never evidence.
	Lost() <-chan struct{}
	// Resign ends the tenure without a successor, so that a standby need not wait.
	// Whatever its outcome, the tenure gives no sign of life any more: call it when
	// done with a tenure, for any reason.
	Resign(ctx context.Context) error
}

// Usage says how full a store is, in bytes; 0 means unknown.
type Usage struct {
	Used, Quota, Free int64
	// Full: the store takes no more writes until somebody makes room.
	Full bool
	// History is how many revisions of its past the store keeps; 0: unknown.
	History int64
	// Warning is what an operator should do something about; empty: nothing.
	Warning string
}

// FreeMin is the room under a data folder below which acquires are refused.
const FreeMin = 256 << 20

// Tight reports whether acquires should be refused: the store is full, 80 % of
// the quota is used, or less than FreeMin is free under the data folder.
func (u Usage) Tight() bool {
	return u.Full || u.Quota > 0 && u.Used >= u.Quota/10*8 || u.Free > 0 && u.Free < FreeMin
}

// WantsSnapshot reports whether it is time for a snapshot because of room
// alone: 40 % of the quota is used.
func (u Usage) WantsSnapshot() bool { return u.Quota > 0 && u.Used >= u.Quota/10*4 }
