package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/bounds"
)

// letGoMax is how long to try to release what could not be printed.
const letGoMax = 5 * time.Second

func newAcquire() *cobra.Command {
	var ttl, wait durationFlag
	var session, label, value, requestID string
	var quiet bool
	var mode modeFlags
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

Without --wait there is one try. While it waits, the name's queue keeps its
place; a signal, or the end of the connection, gives the place up at once. Servers
that cannot be reached are asked again while it waits, for 10s at most.

` + exitHelp,
		Example: `  pawl acquire orders/7 --ttl 30s
  pawl acquire orders/7 --wait 1m --label "$USER@$HOSTNAME"
  pawl acquire from/1 to/2 --wait 10s
  pawl acquire gpu --slots 4 | jq .slot
  LEASE=$(pawl acquire orders/7 | jq -r .lease); pawl release "$LEASE"`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("NAME is missing")
			}
			return nil
		},
	}
	f := cmd.Flags()
	servers := serversFlag(f)
	f.Var(&ttl, "ttl", "TTL of the lease, 1s to 24h (default 15s)")
	f.VarP(&wait, "wait", "w", "how long to wait for the turn, at most 24h; 0s or absent: one try")
	mode.register(f)
	f.StringVar(&value, "value", "", "what others are shown of the holder, at most 65536 bytes; an address, for instance")
	f.StringVar(&session, "session", "", "session that the lease belongs to, instead of one of its own with a TTL; needs --request-id")
	f.StringVar(&label, "label", "", "what others see of the holder (default this host's name)")
	f.StringVar(&requestID, "request-id", "", "makes the command safe to repeat: a repeat finds the lease of the first")
	f.BoolVarP(&quiet, "quiet", "q", false, "do not say on the standard error that it waits for a server")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := checkAcquire(cmd, args, ttl, wait, label, session); err != nil {
			return err
		}
		if err := mode.check(cmd); err != nil {
			return err
		}
		if err := bounds.ValidValue([]byte(value)); err != nil {
			return usage(cmd, "--value: %v", err)
		}
		if !cmd.Flags().Changed("label") {
			label = hostLabel()
		}
		drawn := requestID == ""
		if drawn {
			requestID = rand.Text()
		}
		c, err := newClient(cmd, *servers)
		if err != nil {
			return err
		}
		defer c.close()
		if !quiet {
			c.tells(cmd)
		}
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		lease, err := acquire(ctx, c, &linkpb.AcquireRequest{
			Name: args[0], Names: args[1:], Shared: mode.shared, Slots: uint32(mode.slots), Value: []byte(value),
			LockDelayNano: int64(mode.lockDelay.value), Session: session, TtlNano: int64(ttl.value), WaitNano: int64(wait.value),
			Label: label, RequestId: requestID,
		})
		if err != nil {
			return err
		}
		err = printJSON(cmd.OutOrStdout(), lease)
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
func letGo(ctx context.Context, c *client, lease rest.LeaseBody) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), letGoMax)
	defer done()
	err := c.keep(ctx, func(ctx context.Context, l linkpb.LinkClient, _ bool) error {
		_, err := l.Release(ctx, &linkpb.ReleaseRequest{Lease: lease.Lease})
		return err
	})
	if err != nil {
		return fmt.Errorf("release what was acquired, which ends by itself within %v: %w", time.Duration(lease.TTL), err)
	}
	return nil
}

// checkAcquire says on the spot what the server would refuse.
func checkAcquire(cmd *cobra.Command, names []string, ttl, wait durationFlag, label, session string) error {
	for _, name := range names {
		if err := bounds.ValidName(name); err != nil {
			return usage(cmd, "NAME: %v", err)
		}
	}
	if ttl.given {
		if session != "" {
			return usage(cmd, "both --ttl and --session are given; expected one: a lease of a session has the session's TTL")
		}
		if err := bounds.ValidTTL(ttl.value); err != nil {
			return usage(cmd, "--ttl: %v", err)
		}
	}
	if err := bounds.ValidWait(wait.value); err != nil {
		return usage(cmd, "--wait: %v", err)
	}
	if err := bounds.ValidLabel(label); err != nil {
		return usage(cmd, "--label: %v", err)
	}
	return nil
}

// acquire asks for a lease. The request id makes it safe to ask again after a
// lost answer.
func acquire(ctx context.Context, c *client, q *linkpb.AcquireRequest) (rest.LeaseBody, error) {
	var a *linkpb.AcquireResponse
	err := c.call(ctx, time.Duration(q.WaitNano), func(ctx context.Context, l linkpb.LinkClient, _ bool) (err error) {
		a, err = l.Acquire(ctx, q)
		return err
	})
	if err != nil {
		return rest.LeaseBody{}, heldError(q, err)
	}
	lease := rest.LeaseBody{
		Lease: a.GetLease(), Token: rest.Token(a.GetToken()), Cell: a.GetCell(), Session: a.GetSession(),
		TTL: rest.Duration(a.GetTtlNano()), Waited: rest.Duration(a.GetWaitedNano()),
	}
	given := []rest.NameBody{{Name: a.GetName(), Fence: rest.Token(a.GetFence()), Slot: a.GetSlot()}}
	if len(a.GetFences()) > 0 {
		given = nil
	}
	for _, f := range a.GetFences() {
		given = append(given, rest.NameBody{Name: f.GetName(), Fence: rest.Token(f.GetFence()), Slot: f.GetSlot()})
	}
	lease.Give(given, false)
	return lease, nil
}

// heldError adds to a refusal who holds the name, and what a break needs.
func heldError(q *linkpb.AcquireRequest, err error) error {
	r := refusedOf(err)
	if r.GetReason() != linkpb.Reason_REASON_HELD || r.GetHolder() == nil {
		return err
	}
	h := describe(holderBody(r.GetHolder()))
	// The message may end with what to do when the holder is the session itself.
	message := r.GetMessage()
	if i := strings.LastIndex(message, "; the holder is a lease of this session"); i >= 0 {
		message, h = message[:i], h+message[i:]
	}
	switch {
	case len(q.GetNames()) > 0:
		return failed(exitNotAcquired, "%s: one of the names is %s", message, h)
	case q.GetSlots() > 0:
		return failed(exitNotAcquired, "no slot of %s is free; the first is %s", shown(q.GetName()), h)
	default:
		return failed(exitNotAcquired, "%s is %s", shown(q.GetName()), h)
	}
}

func newRenew() *cobra.Command {
	var asSession bool
	var ttl durationFlag
	cmd := &cobra.Command{
		Use:   "renew LEASE",
		Short: "Renew a lease",
		Long: `Renew renews the session of a lease, and so every lease of that session, for its
whole TTL from now. Its exit code is 70 when the lease is gone: then stop acting
on what it protected.

With --ttl the session has another TTL from now on, also for renewals that name
none; see docs/modes.md. The answer tells what this renewal is good for.

A lease outlives a restart of its server: servers that cannot be reached are asked
again for 5s before the exit code is 69. Renewing twice does no harm.

` + exitHelp,
		Example: `  pawl renew "$LEASE" || exit
  pawl renew "$LEASE" --ttl 10m    # before a long step`,
		Args: names("LEASE"),
	}
	servers := serversFlag(cmd.Flags())
	cmd.Flags().BoolVar(&asSession, "session", false, "the argument is the id of a session")
	cmd.Flags().Bool("json", true, "print one line of JSON, as it does anyway")
	cmd.Flags().Var(&ttl, "ttl", "another TTL from now on, 1s to 24h; absent: the one that was asked for last")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := bounds.ValidTTL(ttl.value); ttl.given && err != nil {
			return usage(cmd, "--ttl: %v", err)
		}
		return withClient(cmd, *servers, func(ctx context.Context, c *client) error {
			out := rest.RenewalBody{SessionBody: rest.SessionBody{Session: args[0]}}
			c.tells(cmd)
			err := c.keep(ctx, func(ctx context.Context, l linkpb.LinkClient, _ bool) error {
				if asSession {
					a, err := l.RenewSession(ctx, &linkpb.RenewSessionRequest{Session: args[0], TtlNano: int64(ttl.value)})
					out.TTL = rest.Duration(a.GetTtlNano())
					return err
				}
				a, err := l.RenewLease(ctx, &linkpb.RenewLeaseRequest{Lease: args[0], TtlNano: int64(ttl.value)})
				out.Session, out.TTL = a.GetSession(), rest.Duration(a.GetTtlNano())
				out.Breaking, out.Reason = a.GetBreaking(), a.GetReason()
				return err
			})
			if err != nil {
				return err
			}
			return printJSON(cmd.OutOrStdout(), out)
		})
	}
	return cmd
}

func newRelease() *cobra.Command {
	var asSession, asJSON bool
	cmd := &cobra.Command{
		Use:   "release LEASE",
		Short: "Release a lease",
		Long: `Release ends a lease; the next waiter for its name is granted at once. A late
release does nothing to a lease that came after. Its exit code is 70 when the
lease is gone already.

Servers that cannot be reached are asked again for 5s before the exit code is 69.
That does no harm: when the first answer was lost the exit code is 0 all the same.

` + exitHelp,
		Example: `  pawl release "$LEASE"`,
		Args:    names("LEASE"),
	}
	servers := serversFlag(cmd.Flags())
	cmd.Flags().BoolVar(&asSession, "session", false, "the argument is the id of a session: close it and release all its leases")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print {} when it is done")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return withClient(cmd, *servers, func(ctx context.Context, c *client) error {
			c.tells(cmd)
			err := release(ctx, c, args[0], asSession)
			if err != nil || !asJSON {
				return err
			}
			return printJSON(cmd.OutOrStdout(), struct{}{})
		})
	}
	return cmd
}

// release ends a lease, or a session.
func release(ctx context.Context, c *client, id string, asSession bool) error {
	return c.keep(ctx, func(ctx context.Context, l linkpb.LinkClient, again bool) (err error) {
		if asSession {
			_, err = l.CloseSession(ctx, &linkpb.CloseSessionRequest{Session: id})
		} else {
			_, err = l.Release(ctx, &linkpb.ReleaseRequest{Lease: id})
		}
		if again && refusedOf(err).GetReason() == linkpb.Reason_REASON_GONE {
			return nil // an earlier try did it, and its answer was lost
		}
		return err
	})
}

// withClient runs do with a client and a context that signals end.
func withClient(cmd *cobra.Command, servers []string, do func(context.Context, *client) error) error {
	c, err := newClient(cmd, servers)
	if err != nil {
		return err
	}
	defer c.close()
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	return do(ctx, c)
}
