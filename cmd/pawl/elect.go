package main

import (
	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/runner"
)

func newElect() *cobra.Command {
	v := runFlags{Options: runner.Options{Election: true}}
	cmd := &cobra.Command{
		Use:   "elect NAME [flags] [-- COMMAND [ARGUMENT...]]",
		Short: "Campaign to be the leader of a name",
		Long: `Elect waits in the queue of NAME until it leads it, and shows others a --value,
such as where the leader is reached; "pawl leader" prints it.

With a COMMAND it is "pawl run": the command runs while this process leads, finds
its term in PAWL_NAME, PAWL_FENCING_TOKEN, PAWL_FENCE, PAWL_CELL and PAWL_RESOURCE,
and is ended in time when the term is. Without one it prints the term as one line of
JSON when it begins, and leads until a signal ends it (it resigns: the next in the
queue leads at once) or the lease is lost.

One elect is one term: it does not campaign again. A leader that was paused may
believe to lead; only a guard at what it writes to stops it.

Exit codes: as of "pawl run"; without a command elect dies of the signal that ended
it (a shell shows 128+n), and 70 means that the lease was lost or broken.`,
		Example: `  pawl elect billing --value "$HOSTNAME:8080" -- ./billing --serve
  pawl elect billing --value "$HOSTNAME:8080"          print the term, and lead
  until pawl elect billing --value "$ADDR" -- ./billing; do sleep 1; done`,
	}
	f := cmd.Flags()
	f.StringVar(&v.Value, "value", "", "what others are shown of the leader, at most 65536 bytes")
	f.VarP(&v.Wait, "wait", "w", "how long to wait for the turn, at most 24h; 0s: one try; absent: for ever")
	f.Var(&v.Mode.LockDelay, "lock-delay", "how long nobody leads after the lease expired or was broken by force, at most 1h (default 0s)")
	v.Mode.AddRide(f)
	v.register(cmd)
	return cmd
}
