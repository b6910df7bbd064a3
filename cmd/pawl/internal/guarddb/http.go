package guarddb

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/pgdsn"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/httpguard"
)

// againAfter is the pause before a claim is repeated that requests under lower tokens hold
// up. The guard waits for them as well, for its own time.
const againAfter = 100 * time.Millisecond

// httpMarks repeats a claim that is busy.
type httpMarks struct {
	httpguard.Client
	wait time.Duration
}

// Claim implements guard.Claimer.
func (m httpMarks) Claim(ctx context.Context, f guard.Fence) error {
	enough := time.NewTimer(m.wait) //tidy:clock how often a claim is repeated decides nothing
	defer enough.Stop()
	for {
		err := m.Client.Claim(ctx, f)
		if !errors.Is(err, httpguard.ErrBusy) || unreachable(err) {
			return err
		}
		again := time.NewTimer(againAfter) //tidy:clock a pause between two tries decides nothing
		select {
		case <-again.C:
		case <-enough.C:
			again.Stop()
			return err
		case <-ctx.Done():
			again.Stop()
			return err
		}
	}
}

func openHTTP(base string, wait time.Duration) (*DB, error) {
	c, err := httpguard.NewClient(base, nil)
	if err != nil {
		return nil, ErrDSN
	}
	return &DB{marks: httpMarks{c.Wait(wait), wait}, Close: func() {}, Text: pgdsn.OneLine, explain: explainHTTP}, nil
}

// unreachable reports that no connection to the guard was found.
func unreachable(err error) bool {
	_, is := errors.AsType[net.Error](err)
	return is
}

func explainHTTP(err error) (code int, advice string) {
	switch {
	case unreachable(err):
		return exit.CodeUnavailable, ""
	case errors.Is(err, httpguard.ErrBusy):
		return exit.CodeNotAcquired, ""
	}
	return exit.CodeUnavailable, ""
}
