package storetest

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// Never is an active-ttl that no test lives to see run out.
const Never = time.Hour

// Place is one empty store and what can be done to it.
type Place struct {
	Clock clock.Clock
	// Seeds is how many seeds the random tests run; 0: one.
	Seeds uint64
	// Server opens another server's way in; what it runs ends with the test.
	Server func(t T, how How) *Server
	// Sent is how many writes servers sent so far, landed or not; Write returns
	// the i-th, from 0.
	Sent  func() int
	Write func(i int) Write
	// Picture shows all that counts of what is durable: tenure, log, snapshot.
	Picture func(t T) map[string]string

	// SetBatch, DropBatch, DropLog, DropTenure and DropChunk damage the store without
	// any server's knowledge. Batch returns a batch as it is stored.
	Batch      func(t T, n uint64) []byte
	SetBatch   func(t T, n uint64, raw []byte)
	DropBatch  func(t T, n uint64)
	DropLog    func(t T)
	DropTenure func(t T)
	DropChunk  func(t T, i int)
	// Foreign puts entries of nobody's beside the cell's own.
	Foreign func(t T)

	// Save keeps the present state; calling what it returns sets the store back.
	// Nil: cannot.
	Save func() (restore func())
	// SetFull has writes refused with store.ErrFull. Nil: cannot.
	SetFull func(full bool)
}

// How a server comes in.
type How struct {
	// ActiveTTL of this server.
	ActiveTTL time.Duration
	// Hasty: it takes over at once from a node with its own id, alive or not, as
	// the holder of an embedded store's folder does; and gives no sign of life.
	Hasty bool
	// FastClock: its clock runs too fast while it stands by.
	FastClock bool
}

// Server is a store.Store and what can befall the one who uses it.
type Server struct {
	store.Store
	// Plan decides the fate of every further transaction; nil: all are good.
	Plan func(f func(what kvlog.What) faulty.Fault)
	// Stall holds every call until Resume; Crash fails them all.
	Stall, Resume, Crash func()
}

// Write is one write that a server sent.
type Write struct {
	What kvlog.What
	// Again has it reach the store now, once more.
	Again func(ctx context.Context) error
}

// OnKV makes a place of an empty KV. Save and SetFull are the caller's to add.
func OnKV(kv kvlog.KV, clk clock.Clock) *Place { return OnKVBelow(kv, clk, "") }

// OnKVBelow makes one of what lies below a prefix, which ends with '/'.
func OnKVBelow(kv kvlog.KV, clk clock.Clock, prefix string) *Place {
	journal := &faulty.Journal{}
	k := onKV{kv: kv, keys: kvlog.Keys{Prefix: prefix}}
	return &Place{
		Clock: clk,
		Server: func(t T, how How) *Server {
			link := faulty.NewLink(kv, clk, journal)
			opts := kvlog.Options{Clock: clk, Prefix: prefix, ActiveTTL: how.ActiveTTL, Sole: how.Hasty}
			fast := &fastClock{Clock: clk, last: clk.Now()}
			if how.FastClock {
				opts.Clock = fast
			}
			s := kvlog.New(link, opts)
			fast.store = s
			t.Cleanup(func() {
				link.Crash()
				s.Close()
			})
			through := store.Store(s)
			if how.FastClock {
				through = fast
			}
			return &Server{
				Store: through,
				Plan:  func(f func(kvlog.What) faulty.Fault) { plan(link, f) },
				Stall: link.Stall, Resume: link.Resume, Crash: link.Crash,
			}
		},
		Sent: journal.Len,
		Write: func(i int) Write {
			txn := journal.At(i)
			return Write{What: txn.What, Again: func(ctx context.Context) error {
				_, err := kv.Txn(ctx, txn)
				return err
			}}
		},
		Picture:    k.picture,
		Batch:      func(t T, n uint64) []byte { return k.get(t, k.keys.Log(n)) },
		SetBatch:   func(t T, n uint64, raw []byte) { k.put(t, k.keys.Log(n), raw) },
		DropBatch:  func(t T, n uint64) { k.drop(t, k.keys.Log(n), k.keys.Log(n+1)) },
		DropLog:    func(t T) { k.drop(t, k.keys.Log(0), k.keys.LogEnd()) },
		DropTenure: func(t T) { k.drop(t, k.keys.Tenure(), k.keys.Tenure()+"\x00") },
		DropChunk:  k.dropChunk,
		Foreign: func(t T) {
			for _, key := range []string{"log/zzz", "log/17", "snap/old", "lock/orders", "zzz"} {
				k.put(t, prefix+key, []byte("none of ours"))
			}
		},
	}
}

func plan(link *faulty.Link, f func(kvlog.What) faulty.Fault) {
	if f == nil {
		link.Plan(nil)
		return
	}
	link.Plan(func(txn kvlog.Txn) faulty.Fault { return f(txn.What) })
}

// onKV does harm to a cell kept by kvlog.
type onKV struct {
	kv   kvlog.KV
	keys kvlog.Keys
}

func (k onKV) do(t T, op kvlog.Op) kvlog.Result {
	t.Helper()
	res, err := k.kv.Txn(t.Context(), kvlog.Txn{What: "harm", Then: []kvlog.Op{op}})
	if err != nil {
		t.Fatalf("do harm: %v", err)
	}
	return res
}

func (k onKV) get(t T, key string) []byte {
	t.Helper()
	return bytes.Clone(k.do(t, kvlog.Op{Kind: kvlog.OpGet, Key: key}).Gets[0].Value)
}

func (k onKV) put(t T, key string, value []byte) {
	t.Helper()
	k.do(t, kvlog.Op{Kind: kvlog.OpPut, Key: key, Value: value})
}

func (k onKV) drop(t T, from, to string) {
	t.Helper()
	k.do(t, kvlog.Op{Kind: kvlog.OpDelete, Key: from, End: to})
}

func (k onKV) all(t T) []kvlog.Pair {
	t.Helper()
	var pairs []kvlog.Pair
	from, to := k.keys.Range()
	for more := true; more; {
		page, err := k.kv.Range(t.Context(), kvlog.Query{From: from, To: to, Limit: 100})
		if err != nil {
			t.Fatalf("read everything: %v", err)
		}
		for _, p := range page.Pairs {
			from = p.Key + "\x00"
		}
		pairs, more = append(pairs, page.Pairs...), page.More
	}
	return pairs
}

// picture leaves out the signs of life, and chunks that nothing points at:
// those may come and go.
func (k onKV) picture(t T) map[string]string {
	t.Helper()
	folder := k.folder(t)
	shown := map[string]string{}
	for _, p := range k.all(t) {
		if p.Key == k.keys.Beat() {
			continue
		}
		if strings.HasPrefix(p.Key, k.keys.Prefix+"snap/") && (folder == "" || !strings.HasPrefix(p.Key, folder)) {
			continue
		}
		shown[p.Key] = fmt.Sprintf("%d %x", p.Rev, p.Value)
	}
	return shown
}

// folder of the present snapshot's chunks, "" when there is none.
func (k onKV) folder(t T) string {
	t.Helper()
	raw := k.get(t, k.keys.Snapshot())
	if raw == nil {
		return ""
	}
	folder, err := k.keys.FolderIn(raw)
	if err != nil {
		t.Fatalf("read the snapshot's key: %v", err)
	}
	return folder
}

func (k onKV) dropChunk(t T, i int) {
	t.Helper()
	key := k.keys.Chunk(k.folder(t), i)
	k.drop(t, key, key+"\x00")
}
