package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/rest"
)

func newStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show the state of the cell",
		Long:    "Status shows the cell as its active server knows it.\n\n" + exitHelp,
		Example: "  pawl status\n  pawl status --json | jq .leases",
		Args:    noArguments,
	}
	servers := serversFlag(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return withClient(cmd, *servers, func(ctx context.Context, c *client) error {
			var a *linkpb.StatusResponse
			err := c.call(ctx, 0, func(ctx context.Context, l linkpb.LinkClient, _ bool) (err error) {
				a, err = l.Status(ctx, &linkpb.StatusRequest{})
				return err
			})
			if err != nil {
				return err
			}
			s := statusBody(a)
			if asJSON {
				return printJSON(cmd.OutOrStdout(), s)
			}
			return printTable(cmd.OutOrStdout(), statusRows(s))
		})
	}
	return cmd
}

func statusBody(a *linkpb.StatusResponse) rest.StatusBody {
	bytes := func(n int64) rest.Number { return rest.Number(max(n, 0)) }
	return rest.StatusBody{
		Cell: a.GetCell(), Epoch: rest.Number(a.GetEpoch()), Active: a.GetActive(),
		ActiveLink: a.GetActiveLink(), ActiveHTTP: a.GetActiveHttp(), ActiveTTL: rest.Duration(a.GetActiveTtlNano()),
		Counter: rest.Number(a.GetToken()), CounterAhead: rest.Duration(a.GetCounterAheadNano()),
		Sessions: int(a.GetSessions()), Leases: int(a.GetLeases()), Waiters: int(a.GetWaiters()),
		Store: a.GetStore(), Batch: rest.Number(a.GetBatch()),
		StoreUsed: bytes(a.GetStoreUsedBytes()), StoreQuota: bytes(a.GetStoreQuotaBytes()), DiskFree: bytes(a.GetDiskFreeBytes()),
		Tight: a.GetTight(), RolledBack: a.GetRolledBack(), Version: a.GetVersion(),
	}
}

func statusRows(s rest.StatusBody) [][]string {
	active := shown(s.ActiveLink)
	if s.Active {
		active += " (this server)"
	}
	rows := [][]string{
		{"cell", shown(s.Cell)},
		{"active server", active},
		{"epoch", strconv.FormatUint(uint64(s.Epoch), 10)},
		{"token counter", fmt.Sprintf("%d (%s the clock)", s.Counter, aheadOf(time.Duration(s.CounterAhead)))},
		{"sessions", strconv.Itoa(s.Sessions)},
		{"leases", strconv.Itoa(s.Leases)},
		{"waiters", strconv.Itoa(s.Waiters)},
		{"store", fmt.Sprintf("%s, batch %d, %s", shown(s.Store), s.Batch, usageOf(s))},
		{"version", shown(s.Version)},
	}
	if s.Tight {
		rows = append(rows, []string{"WARNING", "acquires are refused for want of room"})
	}
	if s.RolledBack {
		rows = append(rows, []string{"WARNING", "store_rolled_back: the log lost acknowledged grants"})
	}
	return rows
}

func aheadOf(d time.Duration) string {
	if d < 0 {
		return (-d).Round(time.Millisecond).String() + " behind"
	}
	return d.Round(time.Millisecond).String() + " ahead of"
}

func usageOf(s rest.StatusBody) string {
	text := megabytes(s.StoreUsed) + " used"
	if s.StoreQuota > 0 {
		text += " of " + megabytes(s.StoreQuota)
	}
	if s.DiskFree > 0 {
		text += ", " + megabytes(s.DiskFree) + " free on the disk"
	}
	return text
}

func megabytes(n rest.Number) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
