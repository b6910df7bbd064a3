package appends

import (
	"context"
	"errors"
	"iter"

	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// errNoAnswer is what a server is told when the store's answer does not come.
var errNoAnswer = errors.New("appends: no answer from the store")

// request is a transaction as it travels.
type request struct {
	// by is the tenure that sent it, of the batch that it puts; nil: a claim.
	by *tenure
	of *batch
	// knew is the last batch that was acknowledged when it was sent.
	knew uint64
	txn  kvlog.Txn
}

// call is one try of an append. It stops where its request leaves, and goes on
// when the answer comes, or is given up.
type call struct {
	request
	// landed: the request has reached the store; the answer, res, is under way.
	landed, givenUp bool
	res             kvlog.Result

	pause func(struct{}) bool
	goOn  func() (struct{}, bool)
	stop  func()
	err   error
}

// try begins a call, up to where its request leaves. Without one it has ended.
func (t *tenure) try(b *batch, send func(context.Context, uint64, []byte) error) {
	c := &call{request: request{by: t, of: b, knew: t.acked}}
	c.goOn, c.stop = iter.Pull(func(pause func(struct{}) bool) {
		c.pause = pause
		c.err = send(context.Background(), b.number, b.raw)
	})
	t.world.calls = append(t.world.calls, c)
	b.call = c
	t.goOn(b)
}

// goOn has a call go on to where its request leaves, or to its end.
func (t *tenure) goOn(b *batch) {
	c := b.call
	t.wire.call = c
	_, leaves := c.goOn()
	if t.wire.call = nil; leaves {
		return
	}
	b.call = nil
	switch {
	case c.err == nil:
		t.answered(b)
	case !errors.Is(c.err, errNoAnswer):
		t.world.alarm(t, c.err)
	}
}

// wire is a server's way to the disk. call is what is going on; without one
// everything is answered at once.
type wire struct {
	world *World
	call  *call
	// wrote is the last transaction that was to change something.
	wrote kvlog.Txn
}

var _ kvlog.KV = (*wire)(nil)

// Txn leaves a transaction under way, or carries it out.
func (x *wire) Txn(ctx context.Context, t kvlog.Txn) (kvlog.Result, error) {
	c := x.call
	if c == nil {
		if t.Writes() {
			x.wrote = t
		}
		return x.world.disk.Txn(ctx, t)
	}
	c.txn = t
	if !c.pause(struct{}{}) || c.givenUp {
		return kvlog.Result{}, errNoAnswer
	}
	return c.res, nil
}

// Range reads keys.
func (x *wire) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	return x.world.disk.Range(ctx, q)
}

// Compact and Usage are of no interest here.
func (x *wire) Compact(context.Context, int64) error             { return nil }
func (x *wire) Usage(context.Context) (u store.Usage, err error) { return u, nil }

// strayMax bounds how often one request lands.
const strayMax = 2

// stray is a request that nobody waits for.
type stray struct {
	request
	landed int
}
