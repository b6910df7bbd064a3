package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdflags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/logdump"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/server"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

func newLog() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Read what a cell keeps in its store",
		Args:  flags.Unknown,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLogDump())
	return cmd
}

// dumpFlags say whose log is dumped, and how.
type dumpFlags struct {
	store  flags.Choice
	data   string
	cell   string
	etcd   etcdflags.Flags
	asJSON bool
}

func newLogDump() *cobra.Command {
	v := dumpFlags{store: flags.Choice{Value: server.StoreEmbedded, Of: []string{server.StoreEmbedded, server.StoreEtcd}}}
	cmd := &cobra.Command{
		Use:   "dump",
		Short: "Print what a cell keeps in its store, readable",
		Long: `Dump prints every key of a cell as it is at one moment: who is active, the
snapshot, each batch with its events. It is for the owner of the etcd that a cell
lives in, and for finding out what happened. It reads only, beside a
server that runs, and asks the store, not the server. The embedded store is read
from the folder of a server that does not run.

The chain of checksums is verified on the way. What is damaged is named and the
rest printed; the exit code is 65 then. The verdict is the last word on the
standard error. Sessions and leases are shown by the hashes of their ids, not by
the ids that commands print, and the cell's secret is left out: nothing that is
printed lets anybody act. A time (at) is shown where the log keeps one; an event
without happened between its neighbours.

Exit codes: 0 whole, 64 invalid usage, 65 damaged, or there is no cell, 69 the
store cannot be read, 1 otherwise.`,
		Example: `  pawl log dump --store etcd --endpoints a:2379,b:2379,c:2379 --cell jobs
  pawl log dump --data /var/lib/pawl --json | jq 'select(.kind == "batch") | .events[]'`,
		Args: flags.None,
	}
	f := cmd.Flags()
	f.Var(&v.store, "store", "where the cell's log lives")
	f.StringVar(&v.data, "data", "./pawl-data", "data folder of the embedded store")
	f.StringVar(&v.cell, "cell", "default", "name of the cell in etcd")
	v.etcd.Add(f)
	f.BoolVar(&v.asJSON, "json", false, "print a line of JSON for each key")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return v.run(cmd) }
	return cmd
}

func (v *dumpFlags) run(cmd *cobra.Command) error {
	ctx, stop := signals.Until(cmd.Context())
	defer stop()
	r, where, err := v.open(ctx, cmd)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // nothing was written
	out := bufio.NewWriter(cmd.OutOrStdout())
	keys, batches := 0, 0
	var damage []error
	err = r.Inspect(ctx, func(f etcdstore.Found) error {
		if f.Kind != logdump.Missing {
			keys++
		}
		if f.Kind == logdump.Batch {
			batches++
		}
		err := logdump.Print(out, &f, v.asJSON)
		damage = append(damage, f.Damage)
		return err
	})
	if err := errors.Join(err, out.Flush()); err != nil {
		return exit.Failed(exit.CodeUnavailable, "read the store: %v", err)
	}
	if found := errors.Join(damage...); found != nil {
		return exit.Failed(exit.CodeData, "damaged: %v", found)
	}
	if keys == 0 {
		return exit.Failed(exit.CodeData, "there is no cell %s; --cell and --prefix say where to look", where)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "whole: the cell %s, %d keys; its chain of %d batches fits\n", where, keys, batches)
	return nil
}

// open also tells where it looks.
func (v *dumpFlags) open(ctx context.Context, cmd *cobra.Command) (r *etcdstore.Reader, where string, err error) {
	if err := checkCell(cmd, v.cell); err != nil {
		return nil, "", err
	}
	for _, name := range map[string][]string{server.StoreEtcd: {"data"}, server.StoreEmbedded: {"cell"}}[v.store.Value] {
		if cmd.Flags().Changed(name) {
			return nil, "", exit.Usage(cmd, "--%s says nothing about --store %s", name, v.store.Value)
		}
	}
	// A reader beside a server does not repeat the server's own warnings.
	e, err := v.etcd.Validate(cmd, v.store.Value, v.cell, true)
	if err != nil {
		return nil, "", err
	}
	where = "in " + output.Text(v.data)
	if v.store.Value == server.StoreEtcd {
		where = "below " + output.Text(e.Prefix) + " in the etcd at " + strings.Join(e.Endpoints, ",")
		r, err = etcdstore.ReadExternal(etcdstore.ExternalOptions{
			Endpoints: e.Endpoints, Prefix: e.Prefix, TLS: e.TLS, User: e.User, Password: e.Password,
		})
	} else {
		r, err = etcdstore.ReadEmbedded(ctx, v.data, clock.System())
	}
	switch {
	case errors.Is(err, etcdstore.ErrNoCell), errors.Is(err, store.ErrDamaged):
		return nil, "", exit.Failed(exit.CodeData, "%v", err)
	case errors.Is(err, etcdstore.ErrInUse):
		return nil, "", exit.Failed(exit.CodeUnavailable, "%v; it can be read when that server has stopped", err)
	case err != nil:
		return nil, "", exit.Failed(exit.CodeUnavailable, "read the store: %v", err)
	}
	return r, where, nil
}
