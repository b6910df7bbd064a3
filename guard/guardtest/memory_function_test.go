package guardtest

import (
	"context"
	"fmt"

	"github.com/pawlproject/pawl/guard"
)

const (
	runsFirst      fault = "a function runs before its fence is looked at"
	commitsFailed  fault = "what a function that failed has done takes effect"
	failedIsStale  fault = "a function's error is called stale"
	swallowsPanics fault = "a panic becomes an error"
	commitsLate    fault = "the commit is sent though the context has ended"
	hidesCause     fault = "the cause of a context's end is not told"
	endedIsDone    fault = "what a function ended itself is done"
)

func (m *memory) inTx(ctx context.Context, f guard.Fence, fn func(Within) error) (err error) {
	if m.fault == swallowsPanics {
		defer func() {
			if recover() != nil {
				err = errOther
			}
		}()
	}
	enter := func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		_, err := m.decide(f, false)
		return err
	}
	if err := enter(); err != nil && m.fault != runsFirst {
		return err
	}
	var texts []string
	ended := false
	err = fn(Within{
		Append: func(text string) error { texts = append(texts, text); return nil },
		Commit: func() error { ended = true; return nil },
	})
	switch {
	case ended && m.fault != endedIsDone:
		return guard.ErrUnknown
	case err != nil && m.fault == failedIsStale:
		return fmt.Errorf("%w: %w", guard.ErrStale, err)
	case err != nil && m.fault != commitsFailed:
		return err
	case ctx.Err() != nil && m.fault == hidesCause:
		return ctx.Err()
	case ctx.Err() != nil && m.fault != commitsLate:
		return fmt.Errorf("%w: %w", ctx.Err(), context.Cause(ctx))
	}
	for _, text := range texts {
		if err := m.do(f, text, false); err != nil {
			return err
		}
	}
	return err
}
