package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/bounds"
)

func newLs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List names that are held, waited for or closed",
		Long: `Ls lists, in byte order, the names that are held, waited for, or closed by a
lock-delay: all of them, or those that begin with PREFIX. A free name is not
listed. HELD says how: as a lock, shared, as a slot with its number and how many
there are, or closed and for how long.

` + askHelp,
		Example: `  pawl ls
  pawl ls orders/
  pawl ls --json | jq -r .name`,
		Args: cobra.MaximumNArgs(1),
	}
	servers := serversFlag(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON for each name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		q := &linkpb.ListRequest{}
		if len(args) == 1 {
			q.Prefix = args[0]
		}
		return withClient(cmd, *servers, func(ctx context.Context, c *client) error {
			rows := [][]string{{"NAME", "HELD", "TOKEN", "HOLDER", "LABEL", "SINCE", "EXPIRES IN", "WAITERS", "VALUE"}}
			err := list(ctx, c, q, func(l rest.LockBody) error {
				if asJSON {
					return printJSON(cmd.OutOrStdout(), l)
				}
				rows = append(rows, lockRows(l)...)
				return nil
			})
			if err != nil || asJSON {
				return err
			}
			return printTable(cmd.OutOrStdout(), rows)
		})
	}
	return cmd
}

func lockRows(l rest.LockBody) [][]string {
	waiters := strconv.Itoa(len(l.Waiters))
	if len(l.Holders) == 0 {
		held := "-"
		if l.ClosedFor > 0 {
			held = "closed for " + tenths(l.ClosedFor)
		}
		return [][]string{{shown(l.Name), held, "-", "-", "-", "-", "-", waiters, "-"}}
	}
	var rows [][]string
	for i, h := range l.Holders {
		value := "-"
		if i == 0 {
			value = shown(clip(string(l.Value)))
		}
		rows = append(rows, []string{
			shown(l.Name), heldAs(l, h), strconv.FormatUint(uint64(h.Token), 10), shown(h.Holder), shown(h.Label),
			h.Since.Format(time.RFC3339), tenths(h.ExpiresIn), waiters, value,
		})
	}
	return rows
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
	return held
}

func tenths(d rest.Duration) string { return time.Duration(d).Round(100 * time.Millisecond).String() }

// list visits every page. Their names ascend, or a server that goes on for ever would
// be listened to for ever.
func list(ctx context.Context, c *client, q *linkpb.ListRequest, each func(rest.LockBody) error) error {
	for last := ""; ; {
		var page *linkpb.ListResponse
		err := c.read(ctx, 0, func(ctx context.Context, l linkpb.LinkClient, _ bool) (err error) {
			page, err = l.List(ctx, q)
			return err
		})
		if err != nil {
			return err
		}
		if n := len(page.GetLocks()); n > bounds.PageMax {
			return fmt.Errorf("%s answers with %d names on a page; at most %d were expected", c.served, n, bounds.PageMax)
		}
		for _, l := range page.GetLocks() {
			if l.GetName() <= last {
				return fmt.Errorf("%s answers with the name %s after %s", c.served, shown(l.GetName()), shown(last))
			}
			last = l.GetName()
			if err := each(lockBody(l)); err != nil {
				return err
			}
		}
		before := q.PageToken
		switch q.PageToken = page.GetNextPageToken(); {
		case q.PageToken == "":
			return nil
		case q.PageToken == before:
			return fmt.Errorf("%s answers with the same page again", c.served)
		}
	}
}

func newShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a name and who waits for it",
		Long: `Show prints the holders of a name, with the tokens that "pawl break" asks for, the
value of the first of them, and the queue in its order.

` + askHelp,
		Example: `  pawl show orders/7`,
		Args:    names("NAME"),
	}
	servers := serversFlag(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := bounds.ValidName(args[0]); err != nil {
			return usage(cmd, "NAME: %v", err)
		}
		return withClient(cmd, *servers, func(ctx context.Context, c *client) error {
			lock := rest.LockBody{Name: args[0], Holders: []rest.HolderBody{}, Waiters: []rest.WaiterBody{}}
			err := list(ctx, c, &linkpb.ListRequest{Name: args[0]}, func(l rest.LockBody) error {
				lock = l
				return nil
			})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), lock)
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.Join(showLines(lock), "\n"))
			return err
		})
	}
	return cmd
}

// showLines tells all there is to know of a name.
func showLines(l rest.LockBody) []string {
	var lines []string
	name := shown(l.Name)
	if l.Slots > 0 {
		lines = append(lines, fmt.Sprintf("%s: %d of %d slots in use", name, l.SlotsInUse, l.Slots))
	}
	for _, h := range l.Holders {
		what := name
		if l.Slots > 0 {
			what = fmt.Sprintf("slot %d", h.Slot)
		}
		lines = append(lines, what+" is "+describe(h))
	}
	switch {
	case l.ClosedFor > 0 && len(l.Holders) > 0:
		lines = append(lines, fmt.Sprintf("%s is closed to others for %v", name, time.Duration(l.ClosedFor)))
	case l.ClosedFor > 0:
		lines = append(lines, fmt.Sprintf("%s is closed for %v: its lease ended without its holder's doing", name, time.Duration(l.ClosedFor)))
	case len(l.Holders) == 0:
		lines = append(lines, name+" is free")
	}
	if len(l.Value) > 0 {
		lines = append(lines, "value: "+shown(string(l.Value)))
	}
	for i, w := range l.Waiters {
		line := fmt.Sprintf("waiter %d: %s (%s)", i+1, shown(w.Label), shown(w.Holder))
		if w.Shared {
			line += ", to share it"
		}
		lines = append(lines, line)
	}
	return lines
}
