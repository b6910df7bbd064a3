package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
)

func newLs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List names that are held, waited for or closed",
		Long: `Ls lists, in byte order, the names that are held, waited for, or closed: all of
them, or those that begin with PREFIX. A free name is not listed. HELD says how: as
a lock, shared, as a slot with its number and how many there are, or closed and for
how long: by a lock-delay, or as claim-only, to those that do not claim.

GRADE says, in the holder's own word, what stands between it and the resource when
it is late: claimed (a guard), delayed (a lock-delay) or advisory (the lease alone).
A holder that is "claimed, may ride 1h0m0s" may go on for that long without an answer.

` + exit.AskHelp,
		Example: `  pawl ls
  pawl ls orders/
  pawl ls --json | jq -r .name`,
		Args: cobra.MaximumNArgs(1),
	}
	servers := client.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q := &linkpb.ListRequest{}
		if len(args) == 1 {
			q.Prefix = args[0]
		}
		return client.With(cmd, *servers, func(ctx context.Context, c *client.Client) error {
			rows := [][]string{{"NAME", "HELD", "GRADE", "TOKEN", "HOLDER", "LABEL", "SINCE", "EXPIRES IN", "WAITERS", "VALUE"}}
			err := c.List(ctx, q, func(l rest.LockBody) error {
				if asJSON {
					return output.JSON(cmd.OutOrStdout(), l)
				}
				rows = append(rows, lockRows(l)...)
				return nil
			})
			if err != nil || asJSON {
				return err
			}
			return output.Table(cmd.OutOrStdout(), rows)
		})
	}
	return cmd
}

func lockRows(l rest.LockBody) [][]string {
	waiters := strconv.Itoa(len(l.Waiters))
	if len(l.Holders) == 0 {
		return [][]string{{output.Text(l.Name), closedAs(l), "-", "-", "-", "-", "-", "-", waiters, "-"}}
	}
	var rows [][]string
	for i, h := range l.Holders {
		value := "-"
		if i == 0 {
			value = output.Text(clip(string(l.Value)))
		}
		rows = append(rows, []string{
			output.Text(l.Name), heldAs(l, h), gradeAs(h), strconv.FormatUint(uint64(h.Token), 10), output.Text(h.Holder), output.Text(h.Label),
			h.Since.Format(time.RFC3339), tenths(h.ExpiresIn), waiters, value,
		})
	}
	return rows
}

// closedAs says in a column how a name is closed that nobody holds.
func closedAs(l rest.LockBody) string {
	var closed []string
	if l.ClosedFor > 0 {
		closed = append(closed, "closed for "+tenths(l.ClosedFor))
	}
	if l.ClaimOnly > 0 {
		closed = append(closed, "claim-only for "+tenths(l.ClaimOnly))
	}
	return cmp.Or(strings.Join(closed, ", "), "-")
}

// gradeAs says in a column of what grade a lease is.
func gradeAs(h rest.HolderBody) string {
	if h.RideThrough != nil {
		return h.Grade + ", may ride " + tenths(*h.RideThrough)
	}
	return h.Grade
}

// clip leaves of a value what a column has room for; "pawl show" has it all.
func clip(s string) string {
	const columnMax = 40
	if r := []rune(s); len(r) > columnMax {
		return string(r[:columnMax-1]) + "…"
	}
	return s
}

// heldAs says in a column how a holder holds a name.
func heldAs(l rest.LockBody, h rest.HolderBody) string {
	held := "exclusive"
	switch {
	case h.Shared:
		held = "shared"
	case l.Slots > 0:
		held = fmt.Sprintf("slot %d of %d", h.Slot, l.Slots)
	}
	if h.Breaking {
		held += ", breaking"
	}
	if l.ClaimOnly > 0 {
		held += ", claim-only for " + tenths(l.ClaimOnly)
	}
	return held
}

func tenths(d rest.Duration) string { return time.Duration(d).Round(100 * time.Millisecond).String() }
