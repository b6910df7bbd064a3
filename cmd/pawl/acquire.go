package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
)

// letGoMax is how long to try to release what could not be printed.
const letGoMax = 5 * time.Second

func newAcquire() *cobra.Command {
	var ttl, wait flags.Duration
	var session, label, value, requestID string
	var quiet bool
	var mode flags.Mode
	cmd := &cobra.Command{
		Use:   "acquire NAME...",
		Short: "Acquire a lease and print it as one line of JSON",
		Long: `Acquire prints the lease as one line of JSON: its id, its fencing token, its fence,
its TTL. The lease ends with the TTL unless "pawl renew" renews it in time, and the
TTL counts from the grant. Show the fence to whatever the lease protects: it is the
token, but for shared leases that of the first of their run. "pawl run" does the
renewing for a command.

The lease is exclusive, or shared with --shared, or one of some --slots. With
several names it holds all of them or none, under one token; each has its fence.

With --claims you say that you claim a guard of the resource before you act. With
--ride-through as well you may go on without an answer, by the rules in docs/http.md;
"pawl run" follows them for a command.

Without --wait there is one try. While it waits, the name's queue keeps its
place; a signal, or the end of the connection, gives the place up at once. Servers
that cannot be reached are asked again while it waits, for 10s at most.

` + exit.Help,
		Example: `  pawl acquire orders/7 --ttl 30s
  pawl acquire orders/7 --wait 1m --label "$USER@$HOSTNAME"
  pawl acquire from/1 to/2 --wait 10s
  pawl acquire gpu --slots 4 | jq .slot
  pawl acquire billing --claims --ride-through 1h
  LEASE=$(pawl acquire orders/7 | jq -r .lease); pawl release "$LEASE"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("NAME is missing")
			}
			return nil
		},
	}
	f := cmd.Flags()
	servers := client.AddFlags(f)
	f.Var(&ttl, "ttl", "TTL of the lease, 1s to 24h (default 15s)")
	f.VarP(&wait, "wait", "w", "how long to wait for the turn, at most 24h; 0s or absent: one try")
	mode.Add(f)
	f.StringVar(&value, "value", "", "what others are shown of the holder, at most 65536 bytes; an address, for instance")
	f.StringVar(&session, "session", "", "session that the lease belongs to, instead of one of its own with a TTL; needs --request-id")
	f.StringVar(&label, "label", "", "what others see of the holder (default this host's name)")
	f.StringVar(&requestID, "request-id", "", "makes the command safe to repeat: a repeat finds the lease of the first")
	f.BoolVarP(&quiet, "quiet", "q", false, "do not say on the standard error that it waits for a server")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAcquire(cmd, args, ttl, wait, label, session); err != nil {
			return err
		}
		if err := mode.Check(cmd); err != nil {
			return err
		}
		if err := bounds.ValidValue([]byte(value)); err != nil {
			return exit.Usage(cmd, "--value: %v", err)
		}
		if !cmd.Flags().Changed("label") {
			label = client.HostLabel()
		}
		drawn := requestID == ""
		if drawn {
			requestID = rand.Text()
		}
		c, err := client.New(cmd, *servers)
		if err != nil {
			return err
		}
		defer c.Close()
		if !quiet {
			c.SayWaiting(cmd)
		}
		ctx, stop := signals.Until(cmd.Context())
		defer stop()
		lease, err := c.Acquire(ctx, &linkpb.AcquireRequest{
			Name: args[0], Names: args[1:], Shared: mode.Shared, Slots: uint32(mode.Slots), Value: []byte(value),
			LockDelayNano: int64(mode.LockDelay.Value), Session: session, TtlNano: int64(ttl.Value), WaitNano: int64(wait.Value),
			Label: label, RequestId: requestID, Claims: mode.Claims, RideThroughNano: int64(mode.RideThrough.Value),
		})
		if errors.Is(err, client.ErrNoRider) {
			return errors.Join(err, letGo(ctx, c, lease))
		}
		if err != nil {
			return err
		}
		err = output.JSON(cmd.OutOrStdout(), lease)
		if err != nil && drawn {
			if kept := letGo(ctx, c, lease); kept != nil {
				// Said here: when the reader has gone nothing is said of the answer.
				fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.CommandPath(), kept)
			}
		}
		return err
	}
	return cmd
}

// letGo releases a lease that nobody was told of, and that nobody can find again.
func letGo(ctx context.Context, c *client.Client, lease rest.LeaseBody) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), letGoMax)
	defer done()
	err := c.Keep(ctx, func(ctx context.Context, l linkpb.LinkClient, _ bool) error {
		_, err := l.Release(ctx, &linkpb.ReleaseRequest{Lease: lease.Lease})
		return err
	})
	if err != nil {
		return fmt.Errorf("release what was acquired, which ends by itself within %v: %w", time.Duration(lease.TTL), err)
	}
	return nil
}

// checkAcquire says on the spot what the server would refuse.
func checkAcquire(cmd *cobra.Command, names []string, ttl, wait flags.Duration, label, session string) error {
	for _, name := range names {
		if err := bounds.ValidName(name); err != nil {
			return exit.Usage(cmd, "NAME: %v", err)
		}
	}
	if ttl.Given {
		if session != "" {
			return exit.Usage(cmd, "both --ttl and --session are given; expected one: a lease of a session has the session's TTL")
		}
		if err := bounds.ValidTTL(ttl.Value); err != nil {
			return exit.Usage(cmd, "--ttl: %v", err)
		}
	}
	if err := bounds.ValidWait(wait.Value); err != nil {
		return exit.Usage(cmd, "--wait: %v", err)
	}
	if err := bounds.ValidLabel(label); err != nil {
		return exit.Usage(cmd, "--label: %v", err)
	}
	return nil
}
