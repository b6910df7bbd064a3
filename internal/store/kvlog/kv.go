package kvlog

import (
	"context"

	"github.com/pawlproject/pawl/internal/store"
)

// KV is a linearizable key-value store. Every change of a key is marked with
// the store's revision, which only goes up. Safe for use by several goroutines.
//
// An error says nothing about whether a write took effect, except ErrFull,
// which says that it did not.
type KV interface {
	// Txn applies Then when every condition holds, else Else, in one step. All
	// writes of one transaction carry the same revision.
	Txn(ctx context.Context, t Txn) (Result, error)
	// Range reads keys in ascending order.
	Range(ctx context.Context, q Query) (Page, error)
	// Compact forgets what keys held before rev.
	Compact(ctx context.Context, rev int64) error
	// Usage says how full the store is.
	Usage(ctx context.Context) (store.Usage, error)
}

// Txn is a conditional change.
type Txn struct {
	If         []Cond
	Then, Else []Op
	// What names the kind of write for logs and tests.
	What What
}

// What a transaction is for.
type What string

// The kinds of transaction of the protocol.
const (
	WhatRead     What = "read"
	WhatFresh    What = "fresh"
	WhatClaim    What = "claim"
	WhatOpen     What = "open"
	WhatAppend   What = "append"
	WhatConfirm  What = "confirm"
	WhatBeat     What = "beat"
	WhatChunk    What = "chunk"
	WhatPublish  What = "publish"
	WhatTruncate What = "truncate"
	WhatSweep    What = "sweep"
	WhatResign   What = "resign"
)

// Cond is one condition on Key. If Value is not nil, Key must hold it. Otherwise Rev
// must be the revision that changed Key last, or 0 when Key must be absent. With End,
// every key in [Key, End) must satisfy the condition.
type Cond struct {
	Key, End string
	Rev      int64
	Value    []byte
}

// OpKind is what an Op does.
type OpKind uint8

// The operations.
const (
	OpGet OpKind = iota
	OpPut
	OpDelete
)

// Op reads or writes Key, or deletes [Key, End). No two of one branch may write
// the same key.
type Op struct {
	Kind     OpKind
	Key, End string
	Value    []byte
}

// Pair is a key and what it holds; Rev is 0 when it is absent.
type Pair struct {
	Key   string
	Value []byte
	Rev   int64
}

// Result of a transaction.
type Result struct {
	// OK: the conditions held.
	OK bool
	// Gets holds one Pair for each OpGet of the branch taken, in order.
	Gets []Pair
	Seen
}

// Seen is what every answer shows of the store as a whole.
type Seen struct {
	// Rev is the store's revision, that of the writes when there were any.
	Rev int64
	// Cluster tells one store from another.
	Cluster uint64
}

// Query asks for the keys in [From, To), at most Limit of them.
type Query struct {
	From, To string
	// Rev is the revision to read at; 0: the newest.
	Rev   int64
	Limit int
	// KeysOnly leaves the values out.
	KeysOnly bool
}

// Page is the answer to a Query.
type Page struct {
	Pairs []Pair
	// More: the limit left keys out.
	More bool
	Seen
}

// Writes reports whether a branch of t changes anything.
func (t Txn) Writes() bool {
	for _, branch := range [][]Op{t.Then, t.Else} {
		for _, op := range branch {
			if op.Kind != OpGet {
				return true
			}
		}
	}
	return false
}

func get(key string) Op               { return Op{Kind: OpGet, Key: key} }
func put(key string, value []byte) Op { return Op{Kind: OpPut, Key: key, Value: value} }
func drop(from, to string) Op         { return Op{Kind: OpDelete, Key: from, End: to} }

func at(p Pair) Cond                  { return Cond{Key: p.Key, Rev: p.Rev} }
func absent(key string) Cond          { return Cond{Key: key} }
func atRev(key string, r int64) Cond  { return Cond{Key: key, Rev: r} }
func noneIn(from, to string) Cond     { return Cond{Key: from, End: to} }
func holds(key string, v []byte) Cond { return Cond{Key: key, Value: v} }
