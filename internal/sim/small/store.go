package small

import (
	"context"
	"errors"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// errNoAnswer is what a server is told when the store's answer does not come.
var errNoAnswer = errors.New("small: no answer from the store")

// fate is what becomes of a write.
type fate int

const (
	lands fate = iota
	// unheard: it lands, and the answer is lost.
	unheard
	// late: it stays under way, and its server gives up waiting.
	late
	// refused: the store is full, and says so.
	refused
)

var fates = [...]string{"lands", "lands and its answer is lost", "stays under way", "is refused, since the store is full"}

// wire is a server's way to the disk. fate is that of its next write.
type wire struct {
	world *World
	fate  fate
}

var _ kvlog.KV = (*wire)(nil)

// Txn lands a transaction, or leaves it under way.
func (x *wire) Txn(_ context.Context, t kvlog.Txn) (kvlog.Result, error) {
	if x.fate == late && t.Writes() {
		x.world.straying = append(x.world.straying, strayOf(t))
		return kvlog.Result{}, errNoAnswer
	}
	if x.fate == refused && t.Writes() {
		return kvlog.Result{}, store.ErrFull
	}
	res, err := x.world.land(t)
	if x.fate == unheard && t.Writes() {
		return kvlog.Result{}, errNoAnswer
	}
	return res, err
}

// Range reads keys.
func (x *wire) Range(ctx context.Context, q kvlog.Query) (kvlog.Page, error) {
	return x.world.disk.Range(ctx, q)
}

// Compact and Usage are of no interest here.
func (x *wire) Compact(context.Context, int64) error             { return nil }
func (x *wire) Usage(context.Context) (u store.Usage, err error) { return u, nil }

// land carries out a transaction, under the judge's eyes.
func (w *World) land(t kvlog.Txn) (kvlog.Result, error) {
	res, err := w.disk.Txn(context.Background(), t)
	if err == nil && res.OK {
		w.judge.landed(t)
	}
	return res, err
}

// strayMax bounds how often one write lands.
const strayMax = 2

// stray is a write that is under way for good.
type stray struct {
	what          kvlog.What
	epoch, number uint64
	events        []byte
	landed        int
	txn           kvlog.Txn
}

func strayOf(t kvlog.Txn) *stray {
	s := &stray{what: t.What, txn: t}
	for _, op := range t.Then {
		if op.Kind == kvlog.OpPut {
			if h, err := store.HeaderOf(op.Value); err == nil {
				s.epoch, s.number, s.events = h.Epoch, h.Number, eventsIn(op.Value)
			}
		}
	}
	return s
}

// eventsIn are the events of a sealed batch, without what chains it to others.
func eventsIn(raw []byte) []byte {
	b, _, err := store.OpenBatch(raw)
	if err != nil {
		return raw
	}
	var all []byte
	for _, e := range b.Events {
		all = appendEvent(all, e)
	}
	return all
}

// stopped is the clock that the store protocol is given: nothing in it waits
// here, since a server claims only when it is to have its turn.
type stopped struct{}

func (stopped) Now() clock.Reading      { return clock.Reading{} }
func (stopped) Wall() time.Time         { return atOpening }
func (stopped) NewTimer() clock.Timer   { return never{} }
func (s stopped) NewAlarm() clock.Timer { return s.NewTimer() }

type never struct{}

func (never) C() <-chan struct{}  { return nil }
func (never) Reset(time.Duration) { panic("small: the store protocol waits") }
func (never) Stop()               {}
