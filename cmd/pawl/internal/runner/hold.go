package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
)

// termBody is what elect prints when its term begins.
type termBody struct {
	Name  string     `json:"name"`
	Token rest.Token `json:"fencing_token"`
	Fence rest.Token `json:"fence"`
	Cell  string     `json:"cell"`
	Value rest.Bytes `json:"value"`
	Label string     `json:"label"`
}

// hold leads until a signal or the end of the lease.
func (r *running) hold(ctx context.Context, lease *pawl.Lease) (supervise.Outcome, error) {
	holding, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := r.watchSignals(stop)
	f := lease.Fence()
	err := output.JSON(os.Stdout, termBody{
		Name: r.Name, Token: rest.Token(lease.Token()), Fence: rest.Token(f.Token), Cell: f.Cell,
		Value: rest.Bytes(r.Value), Label: r.Label,
	})
	if err == nil {
		select {
		case <-holding.Done():
		case <-lease.Context().Done():
		}
	}
	// A process that was frozen until behind the end of its term may hear of a
	// signal before the lease's context has ended.
	switch sig := ended(); {
	case err != nil && sig == 0:
		return supervise.Failed(exit.CodeOther, supervise.ReasonNotStarted), err
	case sig != 0 && lease.RideLeft() > 0:
		return supervise.Interrupted(sig), nil
	}
	r.heard.end()
	why := cmp.Or(context.Cause(lease.Context()), pawl.ErrLost)
	if stop := r.heard.overslept(); stop != "" && errors.Is(why, pawl.ErrLost) {
		why = fmt.Errorf("%w; %s", why, stop)
	}
	return supervise.Failed(supervise.CodeLost, supervise.ReasonLost), why
}
