package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/hook"
)

// traceTimesMax bounds the repetitions of a trace.
const traceTimesMax = 100_000

func newTrace() *cobra.Command {
	var ttl, wait durationFlag
	var times int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trace NAME",
		Short: "Follow an acquire through every room, with its times",
		Long: `Trace acquires NAME, really, over a session of its own, releases it, and prints
which rooms the acquire went through and how long it was in each.

The server counts from when it had read the request, the client by its own clock:
no two machines' clocks are compared. What the client waited and the server does
not account for is the wire: the network both ways, and the systems at its ends.

The first acquire of a session meets cold caches; "-n 1000" shows what is usual.
With -n there are columns for the median, the 99th percentile (of fewer than 100
the largest) and the largest; medians do not add up to the median of the total.
A name that is held waits in the lock table, for --wait at most.

Only the acquires of this command are traced. Others cost nothing more for it.

` + exitHelp,
		Example: "  pawl trace orders/7\n  pawl trace scratch -n 1000\n  pawl trace scratch -n 1000 --json | jq -r '.rooms[] | [.room, .step, .p50] | @tsv'",
		Args:    names("NAME"),
	}
	f := cmd.Flags()
	servers := serversFlag(f)
	f.IntVarP(&times, "times", "n", 1, "how often to acquire and release, 1 to 100000")
	f.Var(&ttl, "ttl", "TTL of the session, 1s to 24h (default 15s)")
	f.VarP(&wait, "wait", "w", "how long to wait for the turn, at most 24h; 0s or absent: one try")
	f.BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if times < 1 || times > traceTimesMax {
			return usage(cmd, "-n is %d; expected 1 to %d", times, traceTimesMax)
		}
		if err := checkAcquire(cmd, args, ttl, wait, "", ""); err != nil {
			return err
		}
		cell, err := targetOf(cmd, *servers)
		if err != nil {
			return err
		}
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		if cell, err = answers(ctx, cell); err != nil {
			return err
		}
		t := tracing{name: args[0], wait: wait.value}
		if err := t.run(ctx, cell, ttl.value, times); err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), t.body())
		}
		return t.print(cmd.OutOrStdout())
	}
	return cmd
}

// tracing is a trace from its first acquire to its table.
type tracing struct {
	name  string
	wait  time.Duration
	all   []hook.Trace
	token guard.Token
}

// answers says at once, and in the words of the other commands, when nobody
// serves. What it returns begins with the server that answered.
func answers(ctx context.Context, cell target) (target, error) {
	c := cell.client()
	defer c.close()
	err := c.read(ctx, 0, func(ctx context.Context, l linkpb.LinkClient, _ bool) error {
		_, err := l.Status(ctx, &linkpb.StatusRequest{})
		return err
	})
	return c.first(), err
}

func (t *tracing) run(ctx context.Context, cell target, ttl time.Duration, times int) error {
	dialing, cancel := context.WithTimeout(ctx, connectMax)
	defer cancel()
	dialing = hook.With(dialing, hook.Parts{Traced: func(x hook.Trace) { t.all = append(t.all, x) }})
	c, err := cell.dial(dialing, pawl.Options{TTL: ttl, Label: hostLabel()})
	if err != nil {
		return watchError(ctx, err)
	}
	defer parting(c, partingMax)
	for range times {
		if err := t.once(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// once acquires and releases.
func (t *tracing) once(ctx context.Context, c *pawl.Client) error {
	l, err := t.acquire(ctx, c)
	var held *pawl.HeldError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &held):
		return failed(exitNotAcquired, "%s is held by %s (%s) with token %d; --wait waits for it", shown(t.name), shown(held.Label), shown(held.Handle), held.Token)
	case errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, pawl.ErrUnavailable):
		return failed(exitNotAcquired, "%s was not granted within %v", shown(t.name), t.wait)
	case err != nil:
		return watchError(ctx, err)
	}
	if err := l.Release(ctx); err != nil {
		return watchError(ctx, err)
	}
	t.token = l.Token()
	if t.all[len(t.all)-1].Server == nil {
		return failed(exitUnavailable, "the server does not tell where a request has been; it may be older than this program")
	}
	return nil
}

func (t *tracing) acquire(ctx context.Context, c *pawl.Client) (*pawl.Lease, error) {
	if t.wait == 0 {
		return c.TryAcquire(ctx, t.name)
	}
	waiting, done := context.WithTimeout(ctx, t.wait)
	defer done()
	return c.Acquire(waiting, t.name)
}
