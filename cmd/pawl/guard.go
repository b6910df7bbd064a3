package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/guarddb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/guard"
)

const guardHelp = `The guard is named by --dsn, by a file (--dsn-file) or by $PAWL_DSN, in this order:
postgres://USER@HOST:PORT/DATABASE, or "host=… dbname=…", is PostgreSQL, sqlite:PATH
is a SQLite file, http://HOST:PORT or https://… a guard over HTTP, s3://BUCKET/PREFIX
a part of a bucket, for which credentials come from AWS's environment and files
("?endpoint=URL&region=NAME&path_style=true" may follow). Others on this machine can
read arguments: leave a password to the file, the variable, PGPASSWORD or ~/.pgpass.
It is never printed.

Exit codes: 0 done, 64 invalid usage, 65 no guard is installed there, 69 it cannot be
reached or gave no answer, 70 stale: the resource has seen a higher token, 75 other
work is in the way, 77 the database, bucket or service does not allow it, 1 refused
for another reason, such as the token of another cell.`

// guardWaitDefault is how long a claim waits for work under lower tokens.
const guardWaitDefault = 10 * time.Second

func newGuard() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "guard",
		Short:   "Install a guard, see and raise its marks, probe an object store",
		Long:    "Guard is for the guards that refuse a fencing token which has been overtaken: of\nPostgreSQL (pgguard), SQLite (sqlguard), HTTP services (httpguard) and object stores\nthat speak S3 (objguard).",
		Example: "  pawl guard ddl --dialect postgres | psql -1 -v ON_ERROR_STOP=1\n  pawl guard seen orders/7\n  pawl run orders/7 -- sh -c 'pawl guard claim orders/7 && ./settle'",
		Args:    flags.Unknown,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGuardDDL(), newGuardSeen(), newGuardClaim(), newGuardProxy(), newGuardProbe())
	return cmd
}

// markBody is a resource's mark. Token and cell are nil when it has none.
type markBody struct {
	Resource string      `json:"resource"`
	Slot     int         `json:"slot,omitempty"`
	Token    *rest.Token `json:"fencing_token,omitempty"`
	Cell     *string     `json:"cell,omitempty"`
}

func markOf(l guardedResource, token guard.Token, cell string) markBody {
	b := markBody{Resource: l.resource, Slot: l.slot}
	if token != 0 {
		b.Token, b.Cell = (*rest.Token)(&token), &cell
	}
	return b
}

func newGuardSeen() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "seen RESOURCE",
		Short: "Show the highest token that a resource has seen",
		Long: `Seen reads the mark of RESOURCE: the highest fencing token that its guard
has kept, and the cell that it is held to.

` + slotHelp + "\n\n" + guardHelp,
		Example: "  pawl guard seen orders/7 --dsn postgres://app@db/shop\n  PAWL_DSN=sqlite:./ledger.db pawl guard seen ledger --json",
		Args:    flags.Names("RESOURCE"),
	}
	at, slot := databaseFlags(cmd.Flags()), slotFlag(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := resolveResource(cmd, args[0], *slot)
		if err != nil {
			return err
		}
		return at.with(cmd, guardWaitDefault, func(ctx context.Context, db *guarddb.DB) error {
			s, err := db.Seen(ctx, l.resource)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			if asJSON {
				return output.JSON(out, markOf(l, s.Seen, s.Cell))
			}
			if s.Seen == 0 {
				return output.Table(out, [][]string{{l.String(), "has seen no token yet: the first claim opens it"}})
			}
			return output.Table(out, [][]string{{"RESOURCE", "SEEN", "CELL"}, {l.String(), s.Seen.String(), output.Text(s.Cell)}})
		})
	}
	return cmd
}

func newGuardClaim() *cobra.Command {
	var token, cell string
	var asJSON, other bool
	wait := flags.Duration{Value: guardWaitDefault}
	cmd := &cobra.Command{
		Use:   "claim RESOURCE",
		Short: "Raise a resource's mark to a token",
		Long: `Claim raises the mark of RESOURCE to a fencing token, and returns when no work
under a lower one is open or will ever commit: what is read afterwards can be acted
upon. Under "pawl run" the token and the cell are those of its lease ($PAWL_FENCE
and $PAWL_CELL), and RESOURCE must be its name: its token shows nothing at the
resource of another name, but shuts out that name's holder. --other-resource says
that it is meant, as where one lease stands for several resources; a --token that
is given is taken as meant. Claiming again does no harm.

` + slotHelp + "\n\n" + guardHelp,
		Example: "  pawl guard claim orders/7 --token 1883217361279398 --cell default-6ce356a4db8c0116\n  pawl run orders/7 -- sh -c 'pawl guard claim orders/7 && ./settle'",
		Args:    flags.Names("RESOURCE"),
	}
	f := cmd.Flags()
	at, slot := databaseFlags(f), slotFlag(f)
	f.BoolVar(&other, "other-resource", false, "RESOURCE is meant, although the lease that this runs under is of another name")
	f.StringVar(&token, "token", "", "fencing token; $PAWL_FENCE when absent")
	f.StringVar(&cell, "cell", "", "id of the cell that granted it; $PAWL_CELL when absent")
	f.VarP(&wait, "wait", "w", "how long to wait for open work under lower tokens; 0s: not at all")
	f.BoolVar(&asJSON, "json", false, "print one line of JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		l, err := resolveResource(cmd, args[0], *slot)
		if err == nil && token == "" && !other {
			err = checkOwn(cmd, l)
		}
		if err != nil {
			return err
		}
		f, err := fenceOf(cmd, l.resource, token, cell)
		if err != nil {
			return err
		}
		if wait.Value < 0 || wait.Value > time.Hour {
			return exit.Usage(cmd, "--wait is %v; expected 0s to 1h", wait.Value)
		}
		return at.with(cmd, wait.Value, func(ctx context.Context, db *guarddb.DB) error {
			if err := db.Claim(ctx, f); err != nil {
				return err
			}
			if asJSON {
				return output.JSON(cmd.OutOrStdout(), markOf(l, f.Token, f.Cell))
			}
			return output.Table(cmd.OutOrStdout(), [][]string{{l.String() + " is claimed with token " + f.Token.String() + " of cell " + output.Text(f.Cell)}})
		})
	}
	return cmd
}

// fenceOf determines what is claimed.
func fenceOf(cmd *cobra.Command, resource, token, cell string) (guard.Fence, error) {
	either := func(flag, env, value string) (string, error) {
		if value == "" {
			value = os.Getenv(env)
		}
		if value == "" {
			return "", exit.Usage(cmd, "--%s is missing, and %s is not set", flag, env)
		}
		return value, nil
	}
	text, err := either("token", "PAWL_FENCE", token)
	if err != nil {
		return guard.Fence{}, err
	}
	if cell, err = either("cell", "PAWL_CELL", cell); err != nil {
		return guard.Fence{}, err
	}
	n, err := guard.ParseToken(text)
	if err != nil {
		return guard.Fence{}, exit.Usage(cmd, "--token is %.40q; expected a fencing token, a number from 1 to 2^53-1", text)
	}
	f := guard.Fence{Resource: resource, Token: n, Cell: cell}
	if err := f.Validate(); err != nil {
		return guard.Fence{}, exit.Usage(cmd, "%s", exit.Text(err))
	}
	return f, nil
}

// databaseNamed is which database, bucket or guard over HTTP a command is told to use.
type databaseNamed struct{ dsn, file string }

const dsnEnv = "PAWL_DSN"

func databaseFlags(f *pflag.FlagSet) *databaseNamed {
	at := &databaseNamed{}
	f.StringVar(&at.dsn, "dsn", "", "the guard, by its database, bucket or URL; $"+dsnEnv+" when absent")
	f.StringVar(&at.file, "dsn-file", "", "file that holds the DSN, instead of --dsn")
	return at
}

// resolve returns the DSN and where it stood.
func (at *databaseNamed) resolve(cmd *cobra.Command) (dsn, from string, err error) {
	switch given := cmd.Flags().Changed; {
	case given("dsn") && given("dsn-file"):
		return "", "", exit.Usage(cmd, "both --dsn and --dsn-file are given; expected one")
	case given("dsn"):
		return at.dsn, "--dsn", nil
	case given("dsn-file"):
		dsn, err := flags.ReadSecret(at.file)
		if err != nil {
			return "", "", exit.Usage(cmd, "--dsn-file: %v", err)
		}
		return strings.TrimSpace(dsn), at.file, nil
	}
	if dsn = os.Getenv(dsnEnv); dsn == "" {
		return "", "", exit.Usage(cmd, "no guard is named: --dsn, --dsn-file or %s is missing; %v", dsnEnv, guarddb.ErrDSN)
	}
	return dsn, dsnEnv, nil
}

// with opens the database, does its work there and finds the code for what went
// wrong.
func (at *databaseNamed) with(cmd *cobra.Command, wait time.Duration, do func(context.Context, *guarddb.DB) error) error {
	dsn, from, err := at.resolve(cmd)
	if err != nil {
		return err
	}
	db, err := guarddb.Open(dsn, "pawl guard", wait)
	if errors.Is(err, guarddb.ErrDSN) {
		return exit.Usage(cmd, "%s names no guard that is known here: %v", from, err)
	}
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, stop := signals.Until(cmd.Context())
	defer stop()
	bounded, cancel := context.WithTimeout(ctx, wait+client.CallMax)
	defer cancel()
	err = do(bounded, db)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case bounded.Err() != nil:
		return exit.Failed(exit.CodeUnavailable, "no answer from the database in time: %s", db.Text(err))
	}
	return db.Failed(err)
}
