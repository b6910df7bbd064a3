package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
)

// ridesOn says that a break does not stop a holder that rides, and what does.
const ridesOn = `its holder may go on for up to %[1]v where it cannot be reached; a claim stops it, with the DSN of what it writes to:
  pawl run %[2]s --claim DSN -- true
where it holds slot K of N:
  pawl run %[2]s --slots N --claims -- pawl guard claim %[2]s --slot K --other-resource --dsn DSN
for all of that time the name is closed to acquires that do not claim, whether that was done or not
`

func newBreak() *cobra.Command {
	var token, reason string
	var now, asJSON bool
	cmd := &cobra.Command{
		Use:   "break NAME --token TOKEN --reason TEXT",
		Short: "Make a holder let go",
		Long: `Break asks the holder of a lease to stop and to let go; the name is free when it
has, or when its session ends. The token, as "pawl show" prints it, makes sure
that the lease meant is the one broken, and not the next one.

With --now the name is free at once. Its holder may act until it notices: then
two may act, and only a guard at the resource keeps the first one out.

A break does not stop the holder of a lease with a ride-through where it cannot be
reached. A claim under a later lease does: pawl run NAME --claim DSN -- true. Each
slot has a line of its own in the guard, and only a claim of that one stops it:
pawl run NAME --slots N --claims -- pawl guard claim NAME --slot K --other-resource

` + exit.AskHelp,
		Example: `  pawl break orders/7 --token 1867776000000001 --reason "host is being retired"
  pawl break orders/7 --token 1867776000000001 --reason "host burnt down" --now`,
		Args: flags.Names("NAME"),
	}
	f := cmd.Flags()
	servers := client.AddFlags(f)
	f.StringVar(&token, "token", "", "fencing token of the lease to break (required)")
	f.StringVar(&reason, "reason", "", "why; told to the holder and logged (required)")
	f.BoolVar(&now, "now", false, "free the name at once; until the holder notices, two may act")
	f.BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := bounds.ValidName(args[0]); err != nil {
			return exit.Usage(cmd, "NAME: %v", err)
		}
		if token == "" {
			return exit.Usage(cmd, "--token is missing; expected the fencing token that \"pawl show %s\" prints", output.Text(args[0]))
		}
		t, err := guard.ParseToken(token)
		if err != nil {
			return exit.Usage(cmd, "--token is %q; expected a number from 1 to 2^53-1", token)
		}
		if reason == "" {
			return exit.Usage(cmd, "--reason is missing; expected why the lease is broken, for its holder and for the log")
		}
		if err := bounds.ValidReason(reason); err != nil {
			return exit.Usage(cmd, "--reason: %v", err)
		}
		return client.With(cmd, *servers, func(ctx context.Context, c *client.Client) error {
			var a *linkpb.BreakResponse
			err := c.Call(ctx, 0, func(ctx context.Context, l linkpb.LinkClient, again bool) (err error) {
				a, err = l.Break(ctx, &linkpb.BreakRequest{Name: args[0], Token: uint64(t), Reason: reason, Now: now})
				if again && exit.RefusalOf(err).GetReason() == linkpb.Reason_REASON_TOKEN_MISMATCH {
					a, err = &linkpb.BreakResponse{Ended: true}, nil // it is not the lease of that token any more
				}
				return err
			})
			if exit.RefusalOf(err).GetReason() == linkpb.Reason_REASON_TOKEN_MISMATCH {
				return exit.Failed(exit.CodeOther, "%s; see \"pawl show %s\"", exit.RefusalOf(err).GetMessage(), output.Text(args[0]))
			}
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case asJSON:
				return output.JSON(out, rest.BreakOf(a.GetEnded(), time.Duration(a.GetRidesOnNano())))
			case a.GetEnded():
				fmt.Fprintf(out, "the lease of %s with token %d has ended\n", output.Text(args[0]), t)
				if ride := time.Duration(a.GetRidesOnNano()); ride > 0 {
					fmt.Fprintf(out, ridesOn, ride, output.Text(args[0]))
				}
			default:
				fmt.Fprintf(out, "the holder of %s was asked to let go; \"pawl show %s\" tells when it has\n", output.Text(args[0]), output.Text(args[0]))
			}
			return nil
		})
	}
	return cmd
}
