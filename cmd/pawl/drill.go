package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
)

func newDrill() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Have the cell fail on purpose, and see who does not live through it",
		Long: `Drill has the cell fail on purpose, for a bounded time, so that nobody comes to
depend on what was never promised. docs/operate.md has it as a yearly exercise.`,
		Args: flags.Unknown,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDrillOutage())
	return cmd
}

func newDrillOutage() *cobra.Command {
	var outage flags.Duration
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "outage --for DURATION",
		Short: "Have the cell answer as one that lost its quorum",
		Long: `Outage has the cell answer as one that lost its quorum: nothing is granted, renewed
or released, and no session's time runs, so none expires while it lasts. Holders
stop by their own deadlines, as in any outage; standbys do not take over.

It ends by itself, and this command then waits until every session that was open
when it began has returned or ended, at most the longest of their TTLs or 5m. It
prints the sessions that did not return within their TTL, or that their clients had
given up, with what they held when it began, and those whose leases rode through
it. The server's log has the report too.

Interrupting this command does not end the outage; restarting the active server
does. The right for it is admin, of all names.

` + exit.AskHelp,
		Example: "  pawl drill outage --for 5m\n  pawl drill outage --for 30s --json | jq '.lost[].names'",
		Args:    flags.None,
	}
	f := cmd.Flags()
	servers := client.AddFlags(f)
	f.Var(&outage, "for", "how long the outage lasts, above 0 and at most 1h (required)")
	f.BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		lasts := outage.Value
		if !outage.Given {
			return exit.Usage(cmd, "--for is missing; expected how long the outage lasts, such as 5m")
		}
		if err := bounds.ValidDrill(lasts); err != nil {
			return exit.Usage(cmd, "--for: %v", err)
		}
		return client.With(cmd, *servers, func(ctx context.Context, c *client.Client) error {
			if a, err := c.Status(ctx); err != nil {
				return err
			} else if !a.GetActive() {
				return exit.Failed(exit.CodeUnavailable, "no server serves, so no outage is begun; \"pawl doctor\" says what is missing")
			}
			until := clock.System().Wall().Add(lasts).UTC().Format(time.RFC3339)
			fmt.Fprintf(cmd.ErrOrStderr(), "%s: the cell answers as one that lost its quorum for %v, until about %s; the report follows\n",
				cmd.CommandPath(), lasts, until)
			a, err := holdDrill(ctx, c, lasts)
			var stopped *signals.Error
			if errors.As(err, &stopped) {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: the outage goes on until about %s; the report will be in the log of the active server\n",
					cmd.CommandPath(), until)
			}
			if err != nil {
				return err
			}
			if asJSON {
				return output.JSON(cmd.OutOrStdout(), rest.DrillOf(a))
			}
			return printDrill(cmd.OutOrStdout(), rest.DrillOf(a))
		})
	}
	return cmd
}

// reportMax bounds how long after its outage a drill takes to report.
const reportMax = cell.RollMax + time.Minute

// holdDrill asks for a drill, once: a second try would begin another.
func holdDrill(ctx context.Context, c *client.Client, lasts time.Duration) (a *linkpb.DrillResponse, err error) {
	err = c.Call(ctx, lasts+reportMax, func(ctx context.Context, l linkpb.LinkClient, again bool) (err error) {
		if again {
			return exit.Failed(exit.CodeUnavailable,
				"the server did not answer to the end; if the outage had begun it goes on, see \"pawl status\", and its report will be in the server's log")
		}
		a, err = l.Drill(ctx, &linkpb.DrillRequest{ForNano: int64(lasts)})
		return err
	})
	return a, err
}

func printDrill(w io.Writer, b rest.DrillBody) error {
	err := output.Table(w, [][]string{
		{"outage", time.Duration(b.Lasted).String()},
		{"sessions", strconv.Itoa(b.Sessions) + " were open when it began"},
		{"returned", fmt.Sprintf("%d were heard from after it, %d of them with leases that rode", b.Returned, b.RideCount)},
		{"lost", strconv.Itoa(b.LostCount) + " did not return within their TTL, or had been given up by their clients"},
		{"missing", strconv.Itoa(b.Missing) + " have neither returned nor ended yet"},
	})
	if err != nil || len(b.Lost)+len(b.Rides) == 0 {
		return err
	}
	rows := [][]string{{"", "HOLDER", "LABEL", "IDENTITY", "LEASES", "NAMES"}}
	for _, x := range b.Lost {
		rows = append(rows, []string{"lost", output.Text(x.Holder), output.Text(x.Label), output.Text(x.Identity), strconv.Itoa(x.Leases), namesText(x.Names)})
	}
	for _, x := range b.Rides {
		rode := "rode " + output.Duration(time.Duration(x.Rode)).String()
		rows = append(rows, []string{rode, output.Text(x.Holder), output.Text(x.Label), output.Text(x.Identity), "", namesText(x.Names)})
	}
	fmt.Fprintln(w)
	if err := output.Table(w, rows); err != nil {
		return err
	}
	if b.LostCount > len(b.Lost) || b.RideCount > len(b.Rides) {
		fmt.Fprintln(w, "and others, which are not listed")
	}
	return nil
}

func namesText(names []string) string {
	texts := make([]string, 0, len(names))
	for _, n := range names {
		texts = append(texts, output.Text(n))
	}
	if len(texts) == 0 {
		return "-"
	}
	return strings.Join(texts, " ")
}
