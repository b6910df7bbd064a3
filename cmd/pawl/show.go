package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/bounds"
)

func newShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a name and who waits for it",
		Long: `Show prints the holders of a name, with the tokens that "pawl break" asks for, the
grade of each lease, the value of the first of them, and the queue in its order.

The grade is the holder's own word of what stands between it and the resource when
it is late: claimed (a guard, which it claims before it acts), delayed (a
lock-delay) or advisory (the lease alone).

` + exit.AskHelp,
		Example: `  pawl show orders/7`,
		Args:    flags.Names("NAME"),
	}
	servers := client.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := bounds.ValidName(args[0]); err != nil {
			return exit.Usage(cmd, "NAME: %v", err)
		}
		return client.With(cmd, *servers, func(ctx context.Context, c *client.Client) error {
			lock := rest.LockBody{Name: args[0], Holders: []rest.HolderBody{}, Waiters: []rest.WaiterBody{}}
			err := c.List(ctx, &linkpb.ListRequest{Name: args[0]}, func(l rest.LockBody) error {
				lock = l
				return nil
			})
			if err != nil {
				return err
			}
			if asJSON {
				return output.JSON(cmd.OutOrStdout(), lock)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(showLines(lock), "\n"))
			return err
		})
	}
	return cmd
}

// gradeLine says what stands between a holder that is late and the resource.
func gradeLine(h rest.HolderBody) string {
	line := "grade: " + h.Grade
	if h.RideThrough != nil {
		line += fmt.Sprintf("; may ride through an outage for %v", time.Duration(*h.RideThrough))
	}
	return line
}

// showLines tells all there is to know of a name.
func showLines(l rest.LockBody) []string {
	var lines []string
	name := output.Text(l.Name)
	if l.Slots > 0 {
		lines = append(lines, fmt.Sprintf("%s: %d of %d slots in use", name, l.SlotsInUse, l.Slots))
	}
	for _, h := range l.Holders {
		what := name
		if l.Slots > 0 {
			what = fmt.Sprintf("slot %d", h.Slot)
		}
		lines = append(lines, what+" is "+output.Holder(h), "  "+gradeLine(h))
	}
	if l.ClaimOnly > 0 {
		lines = append(lines, fmt.Sprintf("%s is claim-only for %v: a lease that rides through outages ended unreleased, and its holder "+
			"may be going on; acquires that do not claim wait", name, time.Duration(l.ClaimOnly)))
	}
	switch {
	case l.ClosedFor > 0 && len(l.Holders) > 0:
		lines = append(lines, fmt.Sprintf("%s is closed to others for %v", name, time.Duration(l.ClosedFor)))
	case l.ClosedFor > 0:
		lines = append(lines, fmt.Sprintf("%s is closed for %v: its lease ended without its holder's doing", name, time.Duration(l.ClosedFor)))
	case len(l.Holders) == 0 && l.ClaimOnly == 0:
		lines = append(lines, name+" is free")
	}
	if len(l.Value) > 0 {
		lines = append(lines, "value: "+output.Text(string(l.Value)))
	}
	for i, w := range l.Waiters {
		line := fmt.Sprintf("waiter %d: %s (%s)", i+1, output.Text(w.Label), output.Text(w.Holder))
		if w.Shared {
			line += ", to share it"
		}
		lines = append(lines, line)
	}
	return lines
}
