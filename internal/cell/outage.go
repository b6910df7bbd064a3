package cell

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/pawlproject/pawl/internal/store"
)

// errOutage is what the store seems to say during a drill: nothing that could be known.
var errOutage = errors.New("a drill is held: the store gives no answer")

// outage is a tenure's store that can be made to give no answer, as one that has lost
// its quorum. The tenure's own signs of life go on below it, so no standby takes over.
//
//   - What is asked for meanwhile is not sent, and its outcome is unknown when the
//     outage is over, or when its caller does not wait any longer.
//   - What was on its way when the outage began may land; its answer is lost.
//   - That the tenure is over is said at once: nothing was promised of that.
type outage struct {
	store.Tenure

	mu sync.Mutex
	// begun counts the outages; over is closed when the present one is, nil when there
	// is none.
	begun uint64
	over  chan struct{}
}

// begin begins an outage.
func (o *outage) begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over == nil {
		o.begun++
		o.over = make(chan struct{})
	}
}

// end ends the outage, if there is one.
func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over != nil {
		close(o.over)
		o.over = nil
	}
}

func (o *outage) state() (begun uint64, over <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.begun, o.over
}

// ask asks the store by call, unless there is an outage.
func (o *outage) ask(ctx context.Context, call func(context.Context) error) error {
	before, over := o.state()
	if over != nil {
		select {
		case <-over:
		case <-ctx.Done():
		case <-o.Lost():
			// A hint, never evidence: the store itself is asked.
			if err := o.Tenure.Confirm(ctx); final(err) {
				return err
			}
			select {
			case <-over:
			case <-ctx.Done():
			}
		}
		return errOutage
	}
	err := call(ctx)
	if begun, _ := o.state(); err == nil && begun != before {
		return errOutage
	}
	return err
}

// Append implements store.Tenure.
func (o *outage) Append(ctx context.Context, n uint64, batch []byte) error {
	return o.ask(ctx, func(ctx context.Context) error { return o.Tenure.Append(ctx, n, batch) })
}

// Confirm implements store.Tenure.
func (o *outage) Confirm(ctx context.Context) error { return o.ask(ctx, o.Tenure.Confirm) }

// Snapshot implements store.Tenure. One that is being published goes on.
func (o *outage) Snapshot(ctx context.Context, upTo uint64, chunks iter.Seq[[]byte]) error {
	if _, over := o.state(); over != nil {
		return errOutage
	}
	return o.Tenure.Snapshot(ctx, upTo, chunks)
}
