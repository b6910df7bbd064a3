package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/cmd/pawl/internal/runner"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
	"github.com/pawlproject/pawl/internal/bounds"
)

func newLeader() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use:   "leader NAME",
		Short: "Print who leads a name",
		Long: `Leader prints the holder of a name as one line of JSON: its fencing token, its
label and, in base64, its value. The line of a name without a holder has the name
alone. Of shared leases and of slots the first holder is printed.

With --watch it prints a line at every change, until a signal ends it. It is the
present leader that is printed: those of shorter terms in between may be missing.
By the time it is read the leader may be another one. While no server answers nothing
is printed, though the leader may change: after about 8s the standard error says so,
and later that a server answers again. With --watch the exit code is 75 when the cell
has no room for one more session or observer.

` + exit.AskHelp,
		Example: `  pawl leader billing | jq -r '.value | @base64d'
  pawl leader billing --watch`,
		Args: flags.Names("NAME"),
	}
	servers := client.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&watch, "watch", false, "print a line at every change")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if err := bounds.ValidName(name); err != nil {
			return exit.Usage(cmd, "NAME: %v", err)
		}
		if watch {
			return watchLeader(cmd, *servers, name)
		}
		return client.With(cmd, *servers, func(ctx context.Context, c *client.Client) error {
			out := leaderBody{Name: name}
			err := c.List(ctx, &linkpb.ListRequest{Name: name}, func(l rest.LockBody) error {
				if len(l.Holders) > 0 {
					h := l.Holders[0]
					out.lead(h.Token, l.Value, h.Label)
				}
				return nil
			})
			if err != nil {
				return err
			}
			return output.JSON(cmd.OutOrStdout(), out)
		})
	}
	return cmd
}

// leaderBody is a line that leader prints. All but the name is nil when nobody
// leads.
type leaderBody struct {
	Name  string      `json:"name"`
	Token *rest.Token `json:"fencing_token,omitempty"`
	Value *rest.Bytes `json:"value,omitempty"`
	Label *string     `json:"label,omitempty"`
}

func (b *leaderBody) lead(token rest.Token, value rest.Bytes, label string) {
	b.Token, b.Value, b.Label = &token, &value, &label
}

func watchLeader(cmd *cobra.Command, servers []string, name string) error {
	cell, err := client.TargetOf(cmd, servers)
	if err != nil {
		return err
	}
	ctx, stop := signals.Until(cmd.Context())
	defer stop()
	dialing, cancel := context.WithTimeout(ctx, client.ConnectMax)
	defer cancel()
	c, err := cell.Dial(dialing, pawl.Options{Label: client.HostLabel()})
	if err != nil {
		return exit.FromSDK(ctx, err)
	}
	defer func() { _ = c.Close() }() // the session ends by itself
	go reportSilence(cmd, c.Events())
	for leader, err := range c.Observe(ctx, name) {
		if err != nil {
			return exit.FromSDK(ctx, err)
		}
		out := leaderBody{Name: name}
		if leader.Token != 0 {
			out.lead(rest.Token(leader.Token), leader.Value, leader.Label)
		}
		if err := output.JSON(cmd.OutOrStdout(), out); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// reportSilence tells a watcher that no server answers, and that one answers again.
func reportSilence(cmd *cobra.Command, events <-chan pawl.Event) {
	stops, _ := supervise.WatchStops(bounds.TTLDefault) // without it stops are not told from outages
	defer stops.Stop()
	tellSilence(events, bounds.TTLDefault, stops.Last, func(line string) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\n", cmd.CommandPath(), line)
	})
}

// tellSilence is reportSilence with a TTL. It does not put a stop of this process down
// to a server. But no event comes of a server that then answers no more:
//
//  1. This process is stopped, and the server with it, or the network.
//  2. It goes on, and its client reports that half of its time has gone by.
//  3. So much time again after the stop no server has answered: now that is said.
func tellSilence(events <-chan pawl.Event, ttl time.Duration, stopped func() (length, ago time.Duration), say func(string)) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var again <-chan struct{} // when a silence after a stop is a server's
	var why error
	warned := false
	warn := func(silent time.Duration) {
		again, warned = nil, true
		say(runner.Silence(ttl-silent, why) + "; what was printed last may have changed")
	}
	for {
		select {
		case e, open := <-events:
			switch {
			case !open:
				return
			case e.Kind == pawl.Jeopardy && !errors.Is(e.Err, pawl.ErrDenied):
				silent := ttl - e.Remaining
				why = e.Err
				if length, ago := stopped(); length > 0 && ago < silent {
					again = client.After(ctx, ttl/2-ago)
				} else {
					warn(silent)
				}
			case e.Kind == pawl.Safe:
				if warned {
					say("a server answers again")
				}
				again, warned = nil, false
			}
		case <-again:
			// There was a stop. It may have been stopped once more meanwhile.
			if _, ago := stopped(); ago < ttl/2 {
				again = client.After(ctx, ttl/2-ago)
			} else {
				warn(ago)
			}
		}
	}
}
