package cell

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/pawlproject/pawl/internal/store"
)

// slowTenure is a store's tenure whose answers wait for a test.
type slowTenure struct {
	store.Tenure
	answer   chan error
	lost     chan struct{}
	appended int
}

func (t *slowTenure) Append(context.Context, uint64, []byte) error {
	t.appended++
	return <-t.answer
}
func (t *slowTenure) Confirm(context.Context) error { return <-t.answer }
func (t *slowTenure) Lost() <-chan struct{}         { return t.lost }

// What was on its way when a drill begins may land, and its answer is lost; what is asked
// for later is not sent; afterwards both are tried again.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := &slowTenure{answer: make(chan error, 1), lost: make(chan struct{})}
		o := &outage{Tenure: under}
		appends := func(ctx context.Context) <-chan error {
			done := make(chan error, 1)
			go func() { done <- o.Append(ctx, 2, nil) }()
			synctest.Wait()
			return done
		}
		onItsWay := appends(t.Context())
		o.begin()
		under.answer <- nil
		if err := <-onItsWay; err == nil || final(err) {
			t.Errorf("the one on its way: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		early, late := appends(ctx), appends(t.Context())
		cancel()
		if err := <-early; err == nil || final(err) {
			t.Errorf("one that was given up: %v", err)
		}
		if len(late) > 0 || under.appended != 1 {
			t.Errorf("during the outage: answered %d, appended %d times", len(late), under.appended)
		}
		if err := o.Snapshot(t.Context(), 1, nil); err == nil || final(err) {
			t.Errorf("a snapshot: %v", err)
		}
		o.end()
		if err := <-late; err == nil || final(err) || under.appended != 1 {
			t.Errorf("at its end: %v, appended %d times", err, under.appended)
		}
		under.answer <- nil
		if err := <-appends(t.Context()); err != nil || under.appended != 2 {
			t.Errorf("afterwards: %v, appended %d times", err, under.appended)
		}
	})
}

// That the tenure is over is said during an outage, too, and nothing else is.
func TestOutageTellsOfTheEndOfATenure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		under := &slowTenure{answer: make(chan error, 1), lost: make(chan struct{})}
		o := &outage{Tenure: under}
		o.begin()
		confirm := func() <-chan error {
			done := make(chan error, 1)
			go func() { done <- o.Confirm(t.Context()) }()
			synctest.Wait()
			return done
		}
		first := confirm()
		close(under.lost)
		under.answer <- store.ErrFenced
		if err := <-first; !errors.Is(err, store.ErrFenced) {
			t.Errorf("a tenure that is over: %v", err)
		}
		under.answer <- nil // the hint was wrong
		second := confirm()
		if len(second) > 0 {
			t.Errorf("a tenure in force was confirmed: %v", <-second)
		}
		o.end()
		if err := <-second; err == nil || final(err) {
			t.Errorf("at the end of the outage: %v", err)
		}
	})
}
