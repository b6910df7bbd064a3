package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/bounds"
)

func newRenew() *cobra.Command {
	var asSession bool
	var ttl flags.Duration
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

` + exit.Help,
		Example: `  pawl renew "$LEASE" || exit
  pawl renew "$LEASE" --ttl 10m    # before a long step`,
		Args: flags.Names("LEASE"),
	}
	servers := client.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asSession, "session", false, "the argument is the id of a session")
	cmd.Flags().Bool("json", true, "print one line of JSON, as it does anyway")
	cmd.Flags().Var(&ttl, "ttl", "another TTL from now on, 1s to 24h; absent: the one that was asked for last")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := bounds.ValidTTL(ttl.Value); ttl.Given && err != nil {
			return exit.Usage(cmd, "--ttl: %v", err)
		}
		return client.With(cmd, *servers, func(ctx context.Context, c *client.Client) error {
			out := rest.RenewalBody{SessionBody: rest.SessionBody{Session: args[0]}}
			c.SayWaiting(cmd)
			err := c.Keep(ctx, func(ctx context.Context, l linkpb.LinkClient, _ bool) error {
				if asSession {
					a, err := l.RenewSession(ctx, &linkpb.RenewSessionRequest{Session: args[0], TtlNano: int64(ttl.Value)})
					out.TTL = rest.Duration(a.GetTtlNano())
					return err
				}
				a, err := l.RenewLease(ctx, &linkpb.RenewLeaseRequest{Lease: args[0], TtlNano: int64(ttl.Value)})
				out.Session, out.TTL = a.GetSession(), rest.Duration(a.GetTtlNano())
				out.Breaking, out.Reason = a.GetBreaking(), a.GetReason()
				return err
			})
			if err != nil {
				return err
			}
			return output.JSON(cmd.OutOrStdout(), out)
		})
	}
	return cmd
}
