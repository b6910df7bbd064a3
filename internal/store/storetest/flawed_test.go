package storetest_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
	"github.com/pawlproject/pawl/internal/store/storetest"
)

// flawed is a store that does one thing wrong.
type flawed struct {
	*memstore.Disk
	// txn changes what is sent, result what is answered.
	txn    func(t kvlog.Txn) kvlog.Txn
	result func(t kvlog.Txn, r kvlog.Result) kvlog.Result
	page   func(q kvlog.Query, p kvlog.Page) kvlog.Page
}

func (p *flawed) Txn(ctx context.Context, t kvlog.Txn) (kvlog.Result, error) {
	sent := t
	if p.txn != nil {
		sent = p.txn(t)
	}
	r, err := p.Disk.Txn(ctx, sent)
	if err == nil && p.result != nil {
		r = p.result(t, r)
	}
	return r, err
}

func (p *flawed) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	page, err := p.Disk.Range(ctx, q)
	if err == nil && p.page != nil {
		page = p.page(q, page)
	}
	return page, err
}

// blind leaves out of the transactions of kind what every condition on a key
// that matches.
func blind(what kvlog.What, matches func(c kvlog.Cond) bool) flawed {
	return flawed{txn: func(t kvlog.Txn) kvlog.Txn {
		if t.What == what {
			t.If = slices.DeleteFunc(slices.Clone(t.If), matches)
		}
		return t
	}}
}

func onTenure(c kvlog.Cond) bool   { return strings.HasSuffix(c.Key, "tenure") }
func onBeat(c kvlog.Cond) bool     { return c.Key == "beat" }
func onSnapshot(c kvlog.Cond) bool { return c.Key == "snapshot" }
func absent(c kvlog.Cond) bool     { return c.Rev == 0 && c.Value == nil }
func present(c kvlog.Cond) bool    { return c.Rev != 0 && !onTenure(c) }
func value(c kvlog.Cond) bool      { return c.Value != nil }

// believing answers a failed put of a batch as if it had landed, when the entry
// that is there satisfies f.
func believing(f func(wrote, found []byte) bool) flawed {
	return flawed{result: func(t kvlog.Txn, r kvlog.Result) kvlog.Result {
		if r.OK || t.What != kvlog.WhatAppend && t.What != kvlog.WhatOpen {
			return r
		}
		entry, wrote := r.Gets[1], t.Then[len(t.Then)-1].Value
		if entry.Rev != 0 && f(wrote, entry.Value) {
			return kvlog.Result{OK: true, Seen: kvlog.Seen{Rev: entry.Rev, Cluster: r.Cluster}}
		}
		return r
	}}
}

var flaws = map[string]flawed{
	"append compares no tenure":            blind(kvlog.WhatAppend, onTenure),
	"append compares only revisions":       blind(kvlog.WhatAppend, value),
	"append overwrites":                    blind(kvlog.WhatAppend, absent),
	"append compares no earlier batch":     blind(kvlog.WhatAppend, present),
	"open compares no tenure":              blind(kvlog.WhatOpen, onTenure),
	"open cuts blindly":                    blind(kvlog.WhatOpen, absent),
	"claim compares no tenure":             blind(kvlog.WhatClaim, func(c kvlog.Cond) bool { return onTenure(c) || onBeat(c) }),
	"claim compares no sign of life":       blind(kvlog.WhatClaim, onBeat),
	"founding looks for no tenure":         blind(kvlog.WhatFresh, func(kvlog.Cond) bool { return true }),
	"founding looks for no log":            blind(kvlog.WhatFresh, func(c kvlog.Cond) bool { return strings.Contains(c.Key, "log/") }),
	"chunks overwrite":                     blind(kvlog.WhatChunk, absent),
	"publish compares no tenure":           blind(kvlog.WhatPublish, onTenure),
	"publish compares no pointer":          blind(kvlog.WhatPublish, onSnapshot),
	"resign compares no tenure":            blind(kvlog.WhatResign, onTenure),
	"confirm compares nothing":             blind(kvlog.WhatConfirm, func(kvlog.Cond) bool { return true }),
	"confirm and revisions see no loss":    forgetful(),
	"an entry with my bytes is mine":       believing(bytes.Equal),
	"any entry of that number is mine":     believing(func([]byte, []byte) bool { return true }),
	"open does not cut":                    withoutDelete(kvlog.WhatOpen),
	"truncation takes all":                 truncateAll(),
	"replay hides what lies behind a hole": contiguous(),
	"a sweep takes all":                    sweepAll(),
	"confirm answers what it last knew":    stale(),
}

// withoutDelete leaves out what a transaction deletes.
func withoutDelete(what kvlog.What) flawed {
	return flawed{txn: func(t kvlog.Txn) kvlog.Txn {
		if t.What == what {
			t.Then = slices.DeleteFunc(slices.Clone(t.Then), func(op kvlog.Op) bool { return op.Kind == kvlog.OpDelete })
		}
		return t
	}}
}

// truncateAll deletes the whole log where the old part was meant.
func truncateAll() flawed {
	return flawed{txn: func(t kvlog.Txn) kvlog.Txn {
		if t.What == kvlog.WhatTruncate {
			t.Then = []kvlog.Op{{Kind: kvlog.OpDelete, Key: kvlog.Keys{}.Log(0), End: kvlog.Keys{}.LogEnd()}}
		}
		return t
	}}
}

// sweepAll deletes the present snapshot's chunks with the old ones.
func sweepAll() flawed {
	return flawed{txn: func(t kvlog.Txn) kvlog.Txn {
		if t.What == kvlog.WhatSweep {
			t.Then = []kvlog.Op{{Kind: kvlog.OpDelete, Key: "snap/", End: "snap0"}}
		}
		return t
	}}
}

// contiguous shows of the log only what comes before the first hole.
func contiguous() flawed {
	return flawed{page: func(q kvlog.Query, p kvlog.Page) kvlog.Page {
		if q.KeysOnly || !strings.HasPrefix(q.From, "log/") {
			return p
		}
		for i := 1; i < len(p.Pairs); i++ {
			var a, b uint64
			_, _ = fmt.Sscanf(p.Pairs[i-1].Key, "log/%d", &a)
			_, _ = fmt.Sscanf(p.Pairs[i].Key, "log/%d", &b)
			if b != a+1 {
				p.Pairs, p.More = p.Pairs[:i], false
			}
		}
		return p
	}}
}

// stale answers a confirm as the one before it was answered.
func stale() flawed {
	var mu sync.Mutex
	last := map[string]kvlog.Result{}
	return flawed{result: func(t kvlog.Txn, r kvlog.Result) kvlog.Result {
		if t.What != kvlog.WhatConfirm {
			return r
		}
		mu.Lock()
		defer mu.Unlock()
		who := string(t.If[1].Value)
		before, ok := last[who]
		last[who] = r
		if !ok {
			return r
		}
		before.Rev = r.Rev
		return before
	}}
}

// forgetful hides that the store went back: every answer shows a revision
// above the last, and a confirm compares no batch.
func forgetful() flawed {
	p := blind(kvlog.WhatConfirm, present)
	var mu sync.Mutex
	rev := int64(1 << 40)
	p.result = func(t kvlog.Txn, r kvlog.Result) kvlog.Result {
		mu.Lock()
		defer mu.Unlock()
		if !t.Writes() {
			rev++
			r.Rev = rev
		}
		return r
	}
	return p
}

// recorder is a T that remembers whether the test failed.
type recorder struct {
	ctx      context.Context
	cancel   context.CancelFunc
	mu       sync.Mutex
	cleanups []func()
	failures []string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Logf(string, ...any)      {}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// failures runs a test on a flawed store, for at most an hour of its time.
func failures(test storetest.Test, kv flawed) []string {
	r := &recorder{}
	r.ctx, r.cancel = context.WithTimeout(context.Background(), time.Hour/2)
	kv.Disk = memstore.NewDisk()
	p := storetest.OnKV(&kv, clock.Bubble())
	p.Save = func() func() {
		saved := kv.Save()
		return func() { kv.Restore(saved) }
	}
	p.SetFull = kv.SetFull
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if gone := recover(); gone != nil {
				r.Errorf("panic: %v", gone)
			}
		}()
		test.Run(r, p)
	}()
	<-done
	r.cancel()
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return r.failures
}

// Each flawed store fails a test of the suite.
func TestFlawedStoresFail(t *testing.T) {
	for name, kv := range flaws {
		t.Run(name, func(t *testing.T) {
			var found []string
			for _, test := range storetest.Tests() {
				if len(found) > 0 && !testing.Verbose() {
					break
				}
				synctest.Test(t, func(t *testing.T) {
					if f := failures(test, kv); len(f) > 0 {
						found = append(found, test.Name+": "+f[0])
					}
				})
			}
			if len(found) == 0 {
				t.Errorf("no test of the suite finds it")
			}
			for _, f := range found {
				t.Log(f)
			}
		})
	}
}

// The recorder reports nothing where nothing is wrong.
func TestNoFault(t *testing.T) {
	for _, test := range storetest.Tests() {
		synctest.Test(t, func(t *testing.T) {
			for _, f := range failures(test, flawed{}) {
				t.Errorf("%s: %s", test.Name, f)
			}
		})
	}
}
