package cell

import (
	"context"
	"errors"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/step"
	"github.com/pawlproject/pawl/internal/store"
)

// launched is a batch that is appended; traced: the times of that are recorded.
type launched struct {
	step.Batch
	traced bool
}

// landing is the end of an append, and when it began and ended.
type landing struct {
	batch        launched
	err          error
	began, ended clock.Reading
}

// launch appends a batch in a goroutine. There are as many goroutines as batches were
// ever on their way at once, and they stay: the call stack through a store is deep, and
// a new goroutine would copy its stack several times.
func (l *loop) launch(ctx context.Context, b launched) {
	l.flights++
	if l.flights > l.appenders {
		l.appenders++
		go func() {
			for b := range l.launches {
				l.landings <- l.runAppender(ctx, b)
			}
		}()
	}
	l.launches <- b
}

func (l *loop) runAppender(ctx context.Context, b launched) landing {
	x := landing{batch: b, began: l.clock.Now()}
	x.err = l.append(ctx, b)
	x.ended = l.clock.Now()
	return x
}

// append lands a batch, and tries again while the outcome is unknown.
func (l *loop) append(ctx context.Context, b launched) error {
	for tries := 1; ; tries++ {
		err := l.store.Append(ctx, b.Number, b.Raw)
		if err == nil || final(err) || ctx.Err() != nil {
			return err
		}
		what := "append: outcome unknown, trying again"
		if errors.Is(err, store.ErrFull) {
			l.full.Store(true)
			what = "append: the store has no room, trying again"
		}
		if tries == 1 {
			l.tenure.intake.wake()
			l.cell.o.Logger.Warn(what, "batch", b.Number, "error", err)
		}
		if !pause(ctx, l.clock) {
			return ctx.Err()
		}
	}
}

// final tells the errors after which a write must not be tried again.
func final(err error) bool {
	return errors.Is(err, store.ErrFenced) || errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrRolledBack)
}

// retryGap is the pause before a write whose outcome is unknown is sent again.
const retryGap = 20 * time.Millisecond

// pause waits for retryGap; false: ctx has ended.
func pause(ctx context.Context, k clock.Clock) bool {
	t := k.NewTimer()
	defer t.Stop()
	t.Reset(retryGap)
	select {
	case <-t.C():
		return true
	case <-ctx.Done():
		return false
	}
}
