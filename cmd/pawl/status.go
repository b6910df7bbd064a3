package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/cell"
)

func newStatus() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the cell",
		Long: `Status shows the cell as its active server knows it. When that one gives no answer
it shows what another says, and "-" for all that only the active one knows.

` + exit.AskHelp,
		Example: "  pawl status\n  pawl status --json | jq .leases",
		Args:    flags.None,
	}
	servers := client.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return client.With(cmd, *servers, func(ctx context.Context, c *client.Client) error {
			a, err := c.Status(ctx)
			if err != nil {
				return err
			}
			s := statusBody(a)
			if asJSON {
				return output.JSON(cmd.OutOrStdout(), s)
			}
			return output.Table(cmd.OutOrStdout(), statusRows(s, c.Served()))
		})
	}
	return cmd
}

// roleOf names what a server does for its cell, of an older one as well.
func roleOf(a *linkpb.StatusResponse) string {
	switch {
	case a.GetRole() != "":
		return a.GetRole()
	case a.GetActive():
		return cell.RoleActive
	case a.GetActiveLink() != "":
		return cell.RoleStandby
	}
	return cell.RoleWaiting
}

func statusBody(a *linkpb.StatusResponse) rest.StatusBody {
	number := func(n int64) rest.Number { return rest.Number(max(n, 0)) }
	return rest.StatusBody{
		Cell: a.GetCell(), Epoch: rest.Number(a.GetEpoch()), Role: roleOf(a), Active: a.GetActive(), Waits: a.GetWaits(),
		ActiveLink: a.GetActiveLink(), ActiveHTTP: a.GetActiveHttp(), ActiveTTL: rest.Duration(a.GetActiveTtlNano()),
		Counter: rest.Number(a.GetToken()), CounterAhead: rest.Duration(a.GetCounterAheadNano()),
		Sessions: int(a.GetSessions()), Leases: int(a.GetLeases()), Waiters: int(a.GetWaiters()),
		Store: a.GetStore(), Batch: rest.Number(a.GetBatch()),
		StoreUsed: number(a.GetStoreUsedBytes()), StoreQuota: number(a.GetStoreQuotaBytes()), DiskFree: number(a.GetDiskFreeBytes()),
		StoreHistory: number(a.GetStoreHistory()), StoreWarning: a.GetStoreWarning(),
		Followed: rest.Number(a.GetFollowed()), Behind: rest.Duration(a.GetBehindNano()),
		Tight: a.GetTight(), RolledBack: a.GetRolledBack(), Drill: rest.DrillLeft(time.Duration(a.GetDrillNano())),
		Version: a.GetVersion(), TLS: a.GetTls(), Auth: a.GetAuth(), Partial: a.GetPartial(),
	}
}

// statusRows shows what the server at an address says.
func statusRows(s rest.StatusBody, at string) [][]string {
	secured := []string{"security", securityOf(s)}
	if !s.Active {
		return standbyRows(s, at, secured)
	}
	rows := [][]string{
		{"cell", output.Text(s.Cell)},
		{"active server", output.Text(s.ActiveLink) + " (answers)"},
		{"epoch", strconv.FormatUint(uint64(s.Epoch), 10)},
	}
	if s.Drill != nil {
		rows = append(rows, []string{"DRILL", fmt.Sprintf("the cell answers as one that lost its quorum for %v more; what follows is from before",
			output.Duration(time.Duration(*s.Drill)))})
	}
	if s.Partial {
		return append(rows, []string{"version", output.Text(s.Version)}, secured,
			[]string{"", "the rest is for who is admin of all names"})
	}
	rows = append(rows, [][]string{
		{"token counter", fmt.Sprintf("%d (%s the clock)", s.Counter, aheadOf(time.Duration(s.CounterAhead)))},
		{"sessions", strconv.Itoa(s.Sessions)},
		{"leases", strconv.Itoa(s.Leases)},
		{"waiters", strconv.Itoa(s.Waiters)},
		{"store", fmt.Sprintf("%s, batch %d, %s", output.Text(s.Store), s.Batch, usageOf(s))},
		{"version", output.Text(s.Version)},
		secured,
	}...)
	if s.Tight {
		rows = append(rows, []string{"WARNING", "acquires are refused for want of room"})
	}
	if s.StoreWarning != "" {
		rows = append(rows, []string{"WARNING", s.StoreWarning})
	}
	if s.RolledBack {
		rows = append(rows, []string{"WARNING", "store_rolled_back: the log lost acknowledged grants"})
	}
	return rows
}

// standbyRows are those of a server that is not the active one. It knows nothing
// of what is in the cell.
func standbyRows(s rest.StatusBody, at string, secured []string) [][]string {
	active, does := output.Text(s.ActiveLink)+" (no answer)", "it stands by"
	switch {
	case s.Role == cell.RoleStandby:
	case s.Waits != "":
		active, does = "-", "it knows of no active server"
	default:
		active, does = "-", "it waits for its turn, and knows of no active server"
	}
	if s.Followed > 0 {
		does += fmt.Sprintf("; it has read the log up to batch %d, %v ago", s.Followed, time.Duration(s.Behind).Round(time.Millisecond))
	}
	rows := [][]string{{"cell", output.Text(s.Cell)}, {"active server", active}, {"asked server", at + ": " + does}}
	if s.Waits != "" {
		rows = append(rows, []string{"it waits for", plainText(s.Waits)}, []string{"", "nothing is granted or renewed before; \"pawl doctor\" says what to do"})
	}
	for _, unknown := range []string{"epoch", "token counter", "sessions", "leases", "waiters"} {
		rows = append(rows, []string{unknown, "-"})
	}
	rows = append(rows, []string{"store", output.Text(s.Store)}, []string{"version", output.Text(s.Version)}, secured)
	if s.StoreWarning != "" {
		rows = append(rows, []string{"WARNING", s.StoreWarning})
	}
	if s.RolledBack {
		rows = append(rows, []string{"WARNING", "store_rolled_back: the log lost acknowledged grants"})
	}
	return rows
}

func securityOf(s rest.StatusBody) string {
	text := "no TLS"
	if s.TLS {
		text = "TLS"
	}
	if s.Auth {
		return text + ", callers prove who they are"
	}
	return text + ", everybody may do everything"
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
