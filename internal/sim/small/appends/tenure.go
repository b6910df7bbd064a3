package appends

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// phase is how far a tenure is.
type phase uint8

const (
	claimed phase = iota
	replayed
	serving
	over
)

// tenure is one server's, from its claim on. It is never told to end: it is over
// when it notices.
type tenure struct {
	world *World
	id    int
	phase phase
	wire  *wire
	real  store.Tenure
	// value is what the tenure's key holds while it is in force.
	value []byte
	// batches from the opening one on; acked is the last that is acknowledged, 0
	// before the opening one is.
	batches []*batch
	acked   uint64
	// from is what its server has read as a standby.
	from standby
}

// batch is one that was made, and what became of it.
type batch struct {
	number, durable uint64
	raw             []byte
	previous, sum   store.Sum
	// call is the try that is going on.
	call *call
	// answered: the server was told that it landed. landed: it did. lost: a
	// set-back took it away, or what lies before it.
	answered, landed, lost bool
}

// nobody is every server's node: each may claim at any moment, as it does what its
// own last tenure left behind.
var nobody = store.Node{ID: [16]byte{1}, Link: "appends"}

// claim swaps a new server in. again: the request comes a second time, some day.
func (w *World) claim(again bool) {
	t := &tenure{world: w, id: len(w.tenures), wire: &wire{world: w}, from: w.standby}
	w.standby = standby{}
	w.tenures = append(w.tenures, t)
	st := kvlog.New(t.wire, kvlog.Options{Clock: stopped{}, Sole: true})
	first := func(epoch uint64, nonce store.Nonce) []byte {
		t.make(epoch, nonce, 1, 0, store.Sum{})
		return t.batches[0].raw
	}
	var err error
	t.real, err = st.Claim(context.Background(), nobody, store.Nonce{byte(t.id + 1)}, first)
	if err != nil {
		w.fail("I4", "%s cannot claim: %v", t.name(), err)
		return
	}
	t.value = w.disk.Holds(keys.Tenure())
	r := request{by: t, txn: t.wire.wrote}
	if t.real.Opened() {
		r.of = t.batches[0]
		t.phase = serving
		t.batches[0].answered, t.acked = true, 1
	}
	w.landed(r)
	if again {
		w.strays = append(w.strays, &stray{r, 1})
	}
}

// make seals the next batch.
func (t *tenure) make(epoch uint64, nonce store.Nonce, n, durable uint64, previous store.Sum) {
	sealed := &recordpb.Batch{Epoch: epoch, Number: n, Nonce: nonce[:], Durable: durable}
	if n > 1 {
		sealed.Previous = previous[:]
	}
	raw, sum, err := store.SealBatch(sealed)
	if err != nil {
		panic(err)
	}
	t.batches = append(t.batches, &batch{number: n, durable: durable, raw: raw, previous: previous, sum: sum})
}

// replay reads the log, or what its server has not followed of it, and makes the opening batch.
func (t *tenure) replay() {
	if t.from.at.Number > 0 && t.resume() {
		return
	}
	var sum store.Sum
	head, err := t.real.Replay(context.Background(), nil, func(_ uint64, raw []byte) error {
		h, err := store.HeaderOf(raw)
		sum = h.Sum
		return err
	})
	if errors.Is(err, store.ErrDamaged) {
		t.world.fail("I4", "%s reads the log: %v", t.name(), err)
	}
	if err != nil {
		t.world.alarm(t, err)
		return
	}
	t.phase = replayed
	t.make(t.real.Epoch(), t.real.Nonce(), head+1, head, sum)
}

// send sends the opening batch, or the next.
func (t *tenure) send() {
	if t.phase == serving {
		last := t.batches[len(t.batches)-1]
		t.make(t.real.Epoch(), t.real.Nonce(), last.number+1, t.acked, last.sum)
	}
	t.retry(len(t.batches) - 1)
}

// retry sends a batch, perhaps again.
func (t *tenure) retry(i int) {
	if t.phase == replayed {
		t.try(t.batches[i], t.real.Open)
		return
	}
	t.try(t.batches[i], t.real.Append)
}

// answered takes in that a batch landed.
func (t *tenure) answered(b *batch) {
	if b.answered = true; t.phase == over {
		return
	}
	t.phase = serving
	for _, b := range t.batches {
		if !b.answered {
			break
		}
		t.acked = b.number
	}
}

// sends reports whether the tenure may send another batch.
func (t *tenure) sends() bool {
	w := t.world
	switch t.phase {
	case replayed:
		return t.batches[0].call == nil
	case serving:
		next := t.batches[len(t.batches)-1].number + 1
		return w.left.Batches > 0 && next <= t.acked+uint64(min(w.bounds.Window, store.InFlight))
	default:
		return false
	}
}

func (t *tenure) name() string { return fmt.Sprintf("tenure %c", 'A'+t.id) }

// stopped is the clock that the store protocol is given: nothing in it waits
// here.
type stopped struct{}

func (stopped) Now() clock.Reading      { return clock.Reading{} }
func (stopped) Wall() time.Time         { return time.Unix(0, 0) }
func (stopped) NewTimer() clock.Timer   { return never{} }
func (s stopped) NewAlarm() clock.Timer { return s.NewTimer() }

type never struct{}

func (never) C() <-chan struct{}  { return nil }
func (never) Reset(time.Duration) { panic("appends: the store protocol waits") }
func (never) Stop()               {}
