package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
)

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

` + exit.Help,
		Example: `  pawl release "$LEASE"`,
		Args:    flags.Names("LEASE"),
	}
	servers := client.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asSession, "session", false, "the argument is the id of a session: close it and release all its leases")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print {} when it is done")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return client.With(cmd, *servers, func(ctx context.Context, c *client.Client) error {
			c.SayWaiting(cmd)
			err := c.Release(ctx, args[0], asSession)
			if err != nil || !asJSON {
				return err
			}
			return output.JSON(cmd.OutOrStdout(), struct{}{})
		})
	}
	return cmd
}
