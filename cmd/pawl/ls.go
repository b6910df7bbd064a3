package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/rest"
	"github.com/pawlproject/pawl/internal/locktable"
)

func newLs() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List names that are held or waited for",
		Long: `Ls lists, in byte order, the names that are held or waited for: all of them, or
those that begin with PREFIX. A free name is not listed.

` + exitHelp,
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
			rows := [][]string{{"NAME", "TOKEN", "HOLDER", "LABEL", "SINCE", "EXPIRES IN", "WAITERS"}}
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
		return [][]string{{shown(l.Name), "-", "-", "-", "-", "-", waiters}}
	}
	var rows [][]string
	for _, h := range l.Holders {
		rows = append(rows, []string{
			shown(l.Name), strconv.FormatUint(uint64(h.Token), 10), shown(h.Holder), shown(h.Label),
			h.Since.Format(time.RFC3339), time.Duration(h.ExpiresIn).Round(100 * time.Millisecond).String(), waiters,
		})
	}
	return rows
}

// list visits every page.
func list(ctx context.Context, c *client, q *linkpb.ListRequest, each func(rest.LockBody) error) error {
	for {
		var page *linkpb.ListResponse
		err := c.call(ctx, 0, func(ctx context.Context, l linkpb.LinkClient, _ bool) (err error) {
			page, err = l.List(ctx, q)
			return err
		})
		if err != nil {
			return err
		}
		for _, l := range page.GetLocks() {
			if err := each(lockBody(l)); err != nil {
				return err
			}
		}
		if q.PageToken = page.GetNextPageToken(); q.PageToken == "" {
			return nil
		}
	}
}

func newShow() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show who holds a name and who waits for it",
		Long: `Show prints the holder of a name, with the token that "pawl break" asks for, and
the queue in its order.

` + exitHelp,
		Example: `  pawl show orders/7`,
		Args:    names("NAME"),
	}
	servers := serversFlag(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := locktable.ValidName(args[0]); err != nil {
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
			rows := [][]string{}
			for _, h := range lock.Holders {
				rows = append(rows, []string{shown(lock.Name) + " is " + describe(h)})
			}
			if len(lock.Holders) == 0 {
				rows = append(rows, []string{shown(lock.Name) + " is free"})
			}
			for i, w := range lock.Waiters {
				rows = append(rows, []string{"waiter " + strconv.Itoa(i+1) + ": " + shown(w.Label) + " (" + shown(w.Holder) + ")"})
			}
			return printTable(cmd.OutOrStdout(), rows)
		})
	}
	return cmd
}
