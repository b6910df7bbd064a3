package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pawlproject/pawl/cmd/pawl/internal/demo"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/guarddb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/pgdsn"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/internal/clock"
)

// demoTTLMax keeps the demo within its time.
const demoTTLMax = 10 * time.Second

func newDemo() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "See a paused holder come back and be refused, and one ride through an outage",
		Example: "  pawl demo zombie",
		Args:    flags.Unknown,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newDemoZombie())
	return cmd
}

func newDemoZombie() *cobra.Command {
	ttl := flags.Duration{Value: 2 * time.Second}
	var asJSON bool
	var postgres, resource string
	cmd := &cobra.Command{
		Use:   "zombie",
		Short: "A holder is paused past its lease, and finishes its write; another loses its server",
		Long: `Zombie starts a server and two workers, which add to a ledger in SQLite under a
lease. The first is paused between reading and writing until its lease has gone
to the second; then it goes on. Once nobody checks its fencing token, and an
update is lost. Once the ledger does, and the late write is refused.

Then the server is killed, and a worker whose lease may ride through an outage adds
to the guarded ledger all the same; when the server is back, the lease goes on under
its token.

With --resource http the ledger is a service over HTTP that checks nothing, and in the
guarded acts "pawl guard proxy" stands before it.

With --postgres the ledger lies on a PostgreSQL server, 13 or newer, in a database
of its own with a random name, which is dropped at the end; the role must be allowed
to create one. Others on this machine can read arguments: leave a password to
PGPASSWORD or ~/.pgpass. If the demo is killed its database, pawl_demo_…, stays.

With --resource s3 the ledger is an object in a bucket, which the demo serves itself from
memory; s3://BUCKET/PREFIX is one of yours ("?endpoint=URL&region=NAME&path_style=true"
may follow; credentials come from AWS's environment and files), where the demo deletes
what it wrote. Without the guard the workers write under the store's own condition, that
nobody wrote in between, and read again when it fails: the update is lost all the same.

Exit codes: 0 all acts came out as they must, 1 otherwise.`,
		Example: "  pawl demo zombie\n  pawl demo zombie --json | jq .\n  pawl demo zombie --resource http\n  pawl demo zombie --resource s3\n  pawl demo zombie --postgres postgres://me@localhost/postgres",
		Args:    flags.None,
	}
	cmd.Flags().Var(&ttl, "ttl", "TTL of the leases, 1s to 10s")
	cmd.Flags().StringVar(&postgres, "postgres", "", "DSN of a PostgreSQL server for the ledger, instead of SQLite")
	cmd.Flags().StringVar(&resource, "resource", "sqlite", "where the ledger is: sqlite, http, s3, or s3://BUCKET/PREFIX")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a line of JSON for each moment and the verdict at the end")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if ttl.Value < time.Second || ttl.Value > demoTTLMax {
			return exit.Usage(cmd, "--ttl is %v; expected 1s to %v", ttl.Value, demoTTLMax)
		}
		if cmd.Flags().Changed("postgres") && postgres == "" {
			return exit.Usage(cmd, "--postgres is empty: %v", pgdsn.ErrDSN)
		}
		if cmd.Flags().Changed("postgres") && cmd.Flags().Changed("resource") {
			return exit.Usage(cmd, "both --resource and --postgres are given; expected one")
		}
		bucket, err := demoBucket(cmd, resource)
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		tell := demo.Text(out, colourful(out))
		if asJSON {
			tell = demo.JSON(out)
		}
		ctx, stop := signals.Until(cmd.Context())
		defer stop()
		err = demo.Zombie(ctx, demo.Options{TTL: ttl.Value, Clock: clock.System(), Report: tell, Postgres: postgres, HTTP: resource == "http", Bucket: bucket})
		switch {
		case errors.Is(err, pgdsn.ErrDSN):
			return exit.Usage(cmd, "--postgres names no database: %v", pgdsn.ErrDSN)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded):
			return exit.Failed(exit.CodeOther, "it took too long: %v", err)
		case err != nil:
			return exit.Failed(exit.CodeOther, "%v", err)
		}
		return nil
	}
	return cmd
}

// demoBucket is the bucket of a demo; empty: its ledger is no object.
func demoBucket(cmd *cobra.Command, resource string) (string, error) {
	switch {
	case resource == "sqlite", resource == "http":
		return "", nil
	case resource == "s3":
		return resource, nil
	}
	if _, err := guarddb.ParseS3(resource); err != nil {
		return "", exit.Usage(cmd, "--resource is not sqlite, http or s3: %v", err)
	}
	return resource, nil
}

// colourful reports whether w is a terminal that may be painted on.
func colourful(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// newDemoWorker is a worker of the demo, which runs it.
func newDemoWorker() *cobra.Command {
	var w demo.Worker
	var ttl flags.Duration
	cmd := &cobra.Command{Use: demo.WorkerCommand, Hidden: true, Args: cobra.NoArgs}
	f := cmd.Flags()
	f.StringVar(&w.Server, "server", "", "")
	f.StringVar(&w.Ledger, "ledger", "", "")
	f.StringVar(&w.Database, "database", "", "")
	f.StringVar(&w.Proxy, "proxy", "", "")
	f.StringVar(&w.Name, "name", "", "")
	f.Int64Var(&w.Amount, "amount", 0, "")
	f.Var(&ttl, "ttl", "")
	f.BoolVar(&w.Guarded, "guarded", false, "")
	f.BoolVar(&w.Slow, "slow", false, "")
	f.BoolVar(&w.Rides, "rides", false, "")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		w.TTL = ttl.Value
		// What went wrong stands in the last step that it reports.
		if w.Run(cmd.Context(), os.Stdin, cmd.OutOrStdout()) != nil {
			return exit.Failed(exit.CodeOther, "")
		}
		return nil
	}
	return cmd
}
