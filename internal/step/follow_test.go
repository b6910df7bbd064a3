package step

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

// stepped is a clock that a test moves.
type stepped struct {
	clock.Clock
	now time.Duration
}

func (k *stepped) Now() clock.Reading { return clock.Reading{Boot: k.now, Raw: k.now} }

// growing is a log that a test writes on.
type growing struct {
	t       *testing.T
	sum     []byte
	batches [][]byte
}

func newGrowing(t *testing.T) *growing {
	wall := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	_, opening := Found(Founding{Cell: "test-0123456789abcdef", Secret: []byte("secret"), Limits: bounds.DefaultLimits}, 1, store.Nonce{1}, wall, 0)
	l := &growing{t: t}
	l.take(opening)
	return l
}

func (l *growing) take(raw []byte) {
	h, err := store.HeaderOf(raw)
	if err != nil {
		l.t.Fatal(err)
	}
	l.sum, l.batches = h.Sum[:], append(l.batches, raw)
}

// write adds a batch of events.
func (l *growing) write(events ...*recordpb.Event) {
	n := uint64(len(l.batches))
	raw, _, err := store.SealBatch(&recordpb.Batch{
		Epoch: 1, Number: n + 1, Durable: n, Previous: l.sum, Nonce: make([]byte, 16), Events: events,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	l.take(raw)
}

func (l *growing) follow(from store.Position, _, batch func(uint64, []byte) error) error {
	for n := from.Number; n < uint64(len(l.batches)); n++ {
		if err := batch(n+1, l.batches[n]); err != nil {
			return err
		}
	}
	return nil
}

func (l *growing) resume(from store.Position, batch func(uint64, []byte) error) (uint64, store.Published, error) {
	return uint64(len(l.batches)), store.Published{}, l.follow(from, nil, batch)
}

// outcome is the end of a lease that was asked for with a request id.
func outcome(id byte) *recordpb.Event {
	return &recordpb.Event{Kind: recordpb.Kind_KIND_OUTCOME, RequestKey: slices.Repeat([]byte{id}, 16)}
}

// remembered counts the request ids in a table, and what is the most that is left of one.
func remembered(t *locktable.Table, now time.Duration) (n int, left time.Duration) {
	for e := range t.Freeze(locktable.Now{Low: now, High: now}).Events() {
		if e.Kind == recordpb.Kind_KIND_OUTCOME {
			n++
			left = max(left, time.Duration(e.LeftNano))
		}
	}
	return n, left
}

// A follower reads for months, and nobody decides on its table: what is forgotten with
// time must be forgotten there, too.
func TestFollowerForgetsRequestIDs(t *testing.T) {
	l, k, f := newGrowing(t), &stepped{now: time.Hour}, NewFollower(bounds.DefaultLimits)
	read := func() {
		t.Helper()
		if complete, err := f.Read(k, l.follow); err != nil || !complete {
			t.Fatalf("read: %v, %v", complete, err)
		}
	}
	read()
	l.write(outcome(1), outcome(2))
	read()
	for passed := time.Duration(0); passed < locktable.OutcomeKept-time.Minute; passed += time.Second {
		k.now += time.Second
		read()
	}
	if n, _ := remembered(f.log.table, f.age); n != 2 {
		t.Errorf("%d request ids are remembered before their time is over", n)
	}
	l.write(outcome(3))
	read()
	// Time in which the standby did not run is not counted.
	k.now += time.Hour
	read()
	if n, _ := remembered(f.log.table, f.age); n != 3 {
		t.Errorf("%d request ids are remembered after a stop", n)
	}
	for range 2 * int(time.Minute/time.Second) {
		k.now += time.Second
		read()
	}
	if n, _ := remembered(f.log.table, f.age); n != 1 {
		t.Errorf("%d request ids are remembered, one is due", n)
	}
	l.write(outcome(4))
	r, err := f.Resume(l.resume, 2)
	if err != nil {
		t.Fatal(err)
	}
	r.table.Tick(locktable.Now{}, true, 1000, &locktable.Decided{})
	if n, left := remembered(r.table, 0); n != 2 || left != locktable.OutcomeKept {
		t.Errorf("%d request ids, %v is left at most", n, left)
	}
	r.table.Tick(locktable.Now{Low: locktable.OutcomeKept, High: locktable.OutcomeKept}, true, 1000, &locktable.Decided{})
	if n, _ := remembered(r.table, 0); n != 0 {
		t.Errorf("%d request ids are remembered for ever", n)
	}
}

// What a follower has is at the end of some batch, whatever goes wrong.
func TestFollowerAfterErrors(t *testing.T) {
	l, k := newGrowing(t), &stepped{now: time.Hour}
	l.write()
	lost := errors.New("no answer")
	for what, x := range map[string]struct {
		err  error
		kept uint64
	}{
		"no answer": {lost, 2},
		"moved":     {store.ErrMoved, 0},
		"damaged":   {store.ErrDamaged, 0},
	} {
		f := NewFollower(bounds.DefaultLimits)
		_, err := f.Read(k, func(from store.Position, chunk, batch func(uint64, []byte) error) error {
			return errors.Join(l.follow(from, chunk, batch), x.err)
		})
		if !errors.Is(err, x.err) || f.Position().Number != x.kept {
			t.Errorf("%s: %v, and batch %d is kept", what, err, f.Position().Number)
		}
		if _, err := f.Resume(l.resume, 2); (err == nil) != (x.kept > 0) || err != nil && !errors.Is(err, store.ErrMoved) {
			t.Errorf("%s: resume: %v", what, err)
		}
	}

	// There is no cell yet.
	f := NewFollower(bounds.DefaultLimits)
	if complete, err := f.Read(k, (&growing{}).follow); err != nil || complete {
		t.Errorf("without a cell: %v, %v", complete, err)
	}

	// A record that does not fit, in what was read and in what is resumed.
	bad := newGrowing(t)
	f = NewFollower(bounds.DefaultLimits)
	if _, err := f.Read(k, bad.follow); err != nil {
		t.Fatal(err)
	}
	bad.write(&recordpb.Event{Kind: recordpb.Kind_KIND_RELEASED, Token: 1})
	g := NewFollower(bounds.DefaultLimits)
	if _, err := g.Read(k, bad.follow); !errors.Is(err, store.ErrDamaged) || g.Position().Number != 0 {
		t.Errorf("read: %v, and batch %d is kept", err, g.Position().Number)
	}
	if _, err := f.Resume(bad.resume, 2); !errors.Is(err, store.ErrMoved) || f.Position().Number != 0 {
		t.Errorf("resume: %v, and batch %d is kept", err, f.Position().Number)
	}
	// The tenure's epoch was set back.
	f = NewFollower(bounds.DefaultLimits)
	if _, err := f.Read(k, l.follow); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Resume(l.resume, 1); !errors.Is(err, store.ErrMoved) {
		t.Errorf("resume in an epoch that has been: %v", err)
	}
}

// A standby that is too slow leaves the store alone for nine tenths of the time.
func TestSlowFollowerSparesTheStore(t *testing.T) {
	l, k, f := newGrowing(t), &stepped{now: time.Hour}, NewFollower(bounds.DefaultLimits)
	asked := 0
	slow := func(from store.Position, chunk, batch func(uint64, []byte) error) error {
		asked++
		k.now += 2 * time.Second
		return errors.Join(l.follow(from, chunk, batch), store.ErrMoved)
	}
	began := k.now
	for range 1000 {
		_, _ = f.Read(k, slow)
		k.now += time.Second
	}
	if share := 2 * float64(asked) / (k.now - began).Seconds(); share > 0.12 || asked < 10 {
		t.Errorf("it asked %d times in %v", asked, k.now-began)
	}
}

// The next snapshot is due when the log has grown since the present one, which the
// follower may not have read.
func TestFollowerCountsGrowthSinceThePresentSnapshot(t *testing.T) {
	l, k, f := newGrowing(t), &stepped{now: time.Hour}, NewFollower(bounds.DefaultLimits)
	for id := range byte(10) {
		l.write(outcome(id + 1))
	}
	if _, err := f.Read(k, l.follow); err != nil {
		t.Fatal(err)
	}
	l.write()
	r, err := f.Resume(func(from store.Position, batch func(uint64, []byte) error) (uint64, store.Published, error) {
		head, _, err := l.resume(from, batch)
		return head, store.Published{Batch: head - 4, Chunks: 3}, err
	}, 2)
	if err != nil {
		t.Fatal(err)
	}
	var all int64
	for _, raw := range l.batches {
		all += int64(len(raw))
	}
	if g := r.Growth; g.Batches != 4 || g.Snapshot != 3*chunkBytes || g.Bytes <= 0 || g.Bytes > all/2 {
		t.Errorf("%+v, of %d bytes in %d batches", g, all, len(l.batches))
	}
}
