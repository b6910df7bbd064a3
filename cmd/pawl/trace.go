package main

import (
	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/cmd/pawl/internal/trace"
)

// traceTimesMax bounds the repetitions of a trace.
const traceTimesMax = 100_000

func newTrace() *cobra.Command {
	var ttl, wait flags.Duration
	var times int
	var unary, overHTTP, asJSON bool
	cmd := &cobra.Command{
		Use:   "trace NAME",
		Short: "Follow an acquire through every room, with its times",
		Long: `Trace acquires NAME, really, releases it, and prints which rooms the acquire went
through and how long it was in each. It goes over the stream of a session, as the
SDK and "pawl run" do; with --unary by a call and with a session of its own, as
"pawl acquire" does; with --http over the HTTP interface of the active server.

The server counts from when it had read the request, the client by its own clock:
no two machines' clocks are compared. What the client waited and the server does
not account for is the wire: the network both ways, and the systems at its ends.

The first acquire of a session meets cold caches; "-n 1000" shows what is usual.
With -n there are columns for the median, the 99th percentile (of fewer than 100
the largest) and the largest; medians do not add up to the median of the total.
A name that is held waits in the lock table, for --wait at most.

Only the acquires of this command are traced. Others cost nothing more for it.

` + exit.Help,
		Example: "  pawl trace orders/7\n  pawl trace scratch -n 1000\n  pawl trace scratch -n 100 --http\n  pawl trace scratch -n 1000 --json | jq -r '.rooms[] | [.room, .step, .p50] | @tsv'",
		Args:    flags.Names("NAME"),
	}
	f := cmd.Flags()
	servers := client.AddFlags(f)
	f.IntVarP(&times, "times", "n", 1, "how often to acquire and release, 1 to 100000")
	f.Var(&ttl, "ttl", "TTL of the session, 1s to 24h (default 15s)")
	f.VarP(&wait, "wait", "w", "how long to wait for the turn, at most 24h; 0s or absent: one try")
	f.BoolVar(&unary, "unary", false, "by calls, without a stream")
	f.BoolVar(&overHTTP, "http", false, "over HTTP, at the address that the active server tells")
	f.BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if times < 1 || times > traceTimesMax {
			return exit.Usage(cmd, "-n is %d; expected 1 to %d", times, traceTimesMax)
		}
		if unary && overHTTP {
			return exit.Usage(cmd, "both --unary and --http are given; expected one of them")
		}
		if err := checkAcquire(cmd, args, ttl, wait, "", ""); err != nil {
			return err
		}
		cell, err := client.TargetOf(cmd, *servers)
		if err != nil {
			return err
		}
		ctx, stop := signals.Until(cmd.Context())
		defer stop()
		o := trace.Options{Name: args[0], TTL: ttl.Value, Wait: wait.Value, Times: times, Way: trace.ByStream}
		switch {
		case unary:
			o.Way = trace.ByCalls
		case overHTTP:
			o.Way = trace.OverHTTP
		}
		t, err := trace.Follow(ctx, cell, o)
		if err != nil {
			return err
		}
		if asJSON {
			return output.JSON(cmd.OutOrStdout(), t.Body())
		}
		return t.Print(cmd.OutOrStdout())
	}
	return cmd
}
