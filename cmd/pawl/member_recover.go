package main

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/server"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

func newMemberRecover() *cobra.Command {
	var data string
	var yes bool
	cmd := &cobra.Command{
		Use:   "recover --data DIR --yes",
		Short: "Go on with one member when most are lost for good",
		Long: `Recover is for the day when most members are lost for good: two of three disks. It
makes a cluster of one out of the member in the data folder, whose server does not
run. The cell keeps its id.

What the lost members had acknowledged and this one had not received is lost.
Therefore tokens are raised, so that none is granted twice, and every lease ends:
its holder is told. A holder that cannot be reached may go on until its deadline;
only a guard at the resource stops it then.

The lost members must not come back: remove their folders, and let them join on
empty ones. The member as it was is kept in the folder, in etcd.lost.

Without --yes it says what it would do, and changes nothing. A member that is alone
has nothing to recover: it stays as it is.

Exit codes: 0 done, 64 invalid usage or --yes is missing, 65 the folder is damaged
or holds no member, 69 the folder is in use, 1 otherwise.`,
		Example: "  pawl member recover --data /var/lib/pawl --yes\n  pawl serve --node n1 --peers n1=https://a.example:7422,n2=https://b.example:7422,n3=https://c.example:7422",
		Args:    flags.None,
	}
	cmd.Flags().StringVar(&data, "data", "./pawl-data", "data folder of the member that is left")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it: the others are lost, and what only they had with them")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := recoverMember(cmd, data, yes)
		switch {
		case errors.Is(err, store.ErrDamaged):
			return exit.Failed(exit.CodeData, "%v", err)
		case errors.Is(err, etcdstore.ErrInUse), errors.Is(err, store.ErrFull), errors.Is(err, server.ErrClock):
			return exit.Failed(exit.CodeUnavailable, "%v", err)
		}
		return err
	}
	return cmd
}

// startIt is what to do when the member is alone.
const startIt = `start it with the flags that it had; the others join when they are started on empty folders`

func recoverMember(cmd *cobra.Command, data string, yes bool) (err error) {
	ctx, stop := signals.Until(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	log := newLogger(cmd.ErrOrStderr(), "text", "warn")
	r, err := etcdstore.OpenRecovery(ctx, etcdstore.EmbeddedOptions{Dir: data, Clock: clock.System(), Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	out := cmd.OutOrStdout()
	if !r.Built() && len(r.Members) == 1 {
		// A recovery that has been done is asked for again: another one would remove what
		// the first has kept.
		fmt.Fprintf(out, "the member in %s is alone, so nothing is to be recovered, and nothing was changed\n%s\n", output.Text(data), startIt)
		return nil
	}
	if !r.Built() {
		var names []string
		for _, m := range r.Members {
			names = append(names, m.Name+"="+m.URL)
		}
		fmt.Fprintf(out, "the member in %s is one of %s; its log ends with entry %d\n", output.Text(data), output.Text(strings.Join(names, ", ")), r.Last)
		fmt.Fprintln(out, "what the others had acknowledged beyond that is lost; tokens are raised, and every lease ends")
	}
	if !yes {
		return exit.Failed(exit.CodeUsage, "nothing was changed; expected --yes, once the other members are lost for good and their folders removed")
	}
	done, err := server.Recover(ctx, r, server.Options{Clock: clock.System(), Logger: log, Released: released})
	if err != nil {
		return fmt.Errorf("recover the member: %w", err)
	}
	if done.Resumed {
		fmt.Fprintln(out, "an earlier recovery was finished")
	} else {
		fmt.Fprintf(out, "the cell %s goes on from here; %d leases have ended\n", output.Text(done.Cell), done.Broken)
	}
	fmt.Fprintf(out, "the member as it was is kept in %s\n", output.Text(done.Kept))
	fmt.Fprintln(out, startIt)
	return nil
}
