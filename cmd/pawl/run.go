package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/runner"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
	"github.com/pawlproject/pawl/internal/bounds"
)

// runFlags are the flags of run and elect.
type runFlags struct {
	runner.Options
	claims, claimFiles []string // DSNs, and files that hold one
}

func newRun() *cobra.Command {
	var v runFlags
	cmd := &cobra.Command{
		Use:   "run NAME [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lease",
		Long: `Run acquires the lease of NAME, runs the command under it, renews the lease as
long as the command runs, and releases it when the command has ended: what is
left of it then, in the background for instance, is ended first (KILL). No shell
is involved. The command finds its lease in PAWL_NAME, PAWL_FENCING_TOKEN,
PAWL_FENCE (which is shown to a guard), PAWL_CELL, PAWL_RESOURCE (the line of a
guard) and PAWL_SLOT (0 without --slots), has the standard input and output to
itself, and gets HUP, INT, QUIT, TERM, USR1 and USR2 passed on.

When the lease cannot be renewed, the command is asked to end in time (--signal),
and killed with all its descendants before anybody else can be granted the name.
That is best effort: what makes it safe is a guard at the resource that the
command writes to. What has become another user, by sudo for instance, an ordinary
user's run cannot kill: it says so, and waits; run pawl by sudo instead, or have
--contain cgroup. When run itself is killed, others are granted the name after
its TTL. The command is ended in the same way when no server answers for more than
about 0.6 of the TTL, and when its holder is asked to let go ("pawl break"). A
command that hangs keeps its lease for as long as it hangs, but for --max-hold.

With --claim DSN, --claim-file or $PAWL_CLAIM run claims the guard of a database, a
bucket or an HTTP service before the command starts; "pawl guard claim --help" says what
a DSN is. --claims says that the command claims by itself before it acts. With one of
these and --ride-through MAX the command is not ended when no server answers: it goes on
for MAX at most, until a server or the guard says that the lease is over. What it does
that goes through no guard may then happen twice.

While it waits for its turn run says for whom, and asks servers that cannot be
reached again, for 10s at most; -n does not.

Exit codes: the command's; when signal n ended it, or the wait, run dies of that
signal, too (a shell shows 128+n); 64 invalid usage, 69 no server reachable, 70 the
lease was lost, given up as asked or held for --max-hold (whatever the command's
own), 75 not acquired (or --conflict-exit-code), 77 not allowed, 126 the command
cannot be run, 127 there is none; when a guard cannot be claimed, that of "pawl guard
claim". --status-fd tells whose code it is.`,
		Example: `  pawl run nightly -- ./report.sh                   wait for the turn
  pawl run nightly -n -E 0 -- ./report.sh           skip it when somebody else is at it
  pawl run gpu --slots 4 -- sh -c 'CUDA_VISIBLE_DEVICES=$((PAWL_SLOT-1)) ./train'
  pawl run leader/billing --ttl 30s -k 10s -- ./billing --serve
  pawl run billing --claim sqlite:./ledger.db --ride-through 1h -- ./billing
  pawl run deploy -w 5m -- sh -c 'deploy --token "$PAWL_FENCE"'`,
	}
	f := cmd.Flags()
	f.BoolVarP(&v.Nonblock, "nonblock", "n", false, "do not wait: one try")
	f.VarP(&v.Wait, "wait", "w", "how long to wait for the turn, at most 24h; 0s: one try; absent: for ever")
	v.Mode.Add(f)
	f.Var(&v.MaxHold, "max-hold", "how long the command may run; then it is asked to end, and killed after --kill-after; absent: for ever")
	v.register(cmd)
	return cmd
}

// register adds what run and elect have in common.
func (v *runFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	servers := client.AddFlags(f)
	v.TTL.Value = bounds.TTLDefault
	v.Contain = flags.Choice{Value: string(supervise.ContainAuto), Of: []string{string(supervise.ContainAuto), string(supervise.ContainCgroup), string(supervise.ContainProcesses)}}
	f.Var(&v.TTL, "ttl", "how long the lease outlives the last sign of life; about how long others wait after a crash")
	f.VarP(&v.KillAfter, "kill-after", "k", "time between the request to end and the kill (default 5s, at most a third of the TTL)")
	f.StringVar(&v.Signal, "signal", "TERM", "signal that asks the command to end")
	f.StringVar(&v.Label, "label", "", "what others see of the holder (default host and process)")
	f.IntVarP(&v.Conflict, "conflict-exit-code", "E", supervise.CodeNotAcquired, "exit code when the lease is not acquired")
	f.StringArrayVar(&v.claims, "claim", nil, "DSN of a guard that is claimed before the command starts; may be given again; $"+claimEnv+" when neither this nor --claim-file is given")
	f.StringArrayVar(&v.claimFiles, "claim-file", nil, "file that holds such a DSN")
	f.Var(&v.Contain, "contain", "how the command's descendants are found")
	f.IntVar(&v.StatusFD, "status-fd", -1, "file descriptor that gets one line of JSON about the end")
	f.BoolVar(&v.JSON, "json", false, "what "+cmd.Name()+" itself has to say goes to the standard error as lines of JSON")
	f.BoolVarP(&v.Quiet, "quiet", "q", false, "say nothing but errors")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cell, err := client.TargetOf(cmd, *servers)
		if err == nil {
			err = v.validate(cmd, args)
		}
		if err != nil {
			v.Report(supervise.Failed(supervise.CodeUsage, supervise.ReasonUsage))
			return err
		}
		v.Cell = cell
		return runner.Run(cmd, &v.Options)
	}
}

// validate checks what the command line says before anything is asked of a server.
func (v *runFlags) validate(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case v.Election && dash < 0 && len(args) == 1:
		// No command is meant.
	case len(args) == 0 || dash == 0:
		return exit.Usage(cmd, "NAME is missing; expected NAME -- COMMAND")
	case dash < 0:
		return exit.Usage(cmd, "\"--\" is missing; expected %s -- COMMAND", output.Text(args[0]))
	case dash > 1:
		return exit.Usage(cmd, "too many arguments (%q) before \"--\"; expected NAME -- COMMAND", args[1])
	case len(args) == dash:
		return exit.Usage(cmd, "COMMAND is missing; expected it behind \"--\"")
	}
	v.Name, v.Args = args[0], args[1:]
	if v.Nonblock && v.Wait.Given {
		return exit.Usage(cmd, "both --nonblock and --wait are given; expected one of them")
	}
	if err := checkAcquire(cmd, args[:1], flags.Duration{Value: v.TTL.Value, Given: true}, v.Wait, v.Label, ""); err != nil {
		return err
	}
	if err := v.resolveClaims(cmd); err != nil {
		return err
	}
	if err := v.Mode.Check(cmd); err != nil {
		return err
	}
	if err := bounds.ValidValue([]byte(v.Value)); err != nil {
		return exit.Usage(cmd, "--value: %v", err)
	}
	if v.Conflict < 0 || v.Conflict > 255 {
		return exit.Usage(cmd, "--conflict-exit-code is %d; expected 0 to 255", v.Conflict)
	}
	if err := v.validateTimes(cmd); err != nil {
		return err
	}
	if v.MaxHold.Given && v.MaxHold.Value <= 0 {
		return exit.Usage(cmd, "--max-hold is %v; expected more than 0s", v.MaxHold.Value)
	}
	if runner.SignalOf(v.Signal) == 0 {
		return exit.Usage(cmd, "--signal is %q; expected a name such as TERM, or a number", v.Signal)
	}
	if v.StatusFD < 0 && cmd.Flags().Changed("status-fd") {
		return exit.Usage(cmd, "--status-fd is %d; expected the number of an open file descriptor, such as 3", v.StatusFD)
	}
	if v.StatusFD >= 0 {
		if _, err := unix.FcntlInt(uintptr(v.StatusFD), unix.F_GETFD, 0); err != nil {
			return exit.Usage(cmd, "--status-fd is %d, which is not open", v.StatusFD)
		}
		if v.StatusFD > 2 {
			unix.CloseOnExec(v.StatusFD) // not the command's
		}
	}
	if v.Label == "" && !cmd.Flags().Changed("label") {
		v.Label = fmt.Sprintf("%s pid %d", client.HostLabel(), os.Getpid())
	}
	return nil
}

// claimEnv has the DSN of the guard that is claimed.
const claimEnv = "PAWL_CLAIM"

// resolveClaims finds out which guards are to be claimed.
func (v *runFlags) resolveClaims(cmd *cobra.Command) error {
	for _, dsn := range v.claims {
		v.Databases = append(v.Databases, runner.Database{DSN: dsn, From: "--claim"})
	}
	for _, path := range v.claimFiles {
		dsn, err := flags.ReadSecret(path)
		if err != nil {
			return exit.Usage(cmd, "--claim-file: %v", err)
		}
		v.Databases = append(v.Databases, runner.Database{DSN: strings.TrimSpace(dsn), From: path})
	}
	if dsn := os.Getenv(claimEnv); dsn != "" && len(v.Databases) == 0 {
		v.Databases = []runner.Database{{DSN: dsn, From: claimEnv}}
	}
	if n := len(v.Databases); n > runner.DatabasesMax {
		return exit.Usage(cmd, "%d databases are to be claimed; expected at most %d", n, runner.DatabasesMax)
	}
	v.Mode.Claims = v.Mode.Claims || len(v.Databases) > 0
	return nil
}

func (v *runFlags) validateTimes(cmd *cobra.Command) error {
	if !v.KillAfter.Given {
		v.KillAfter.Value = supervise.DefaultKillAfter(v.TTL.Value)
	}
	switch ttl, kill := v.TTL.Value, v.KillAfter.Value; {
	case len(v.Args) == 0:
		return nil // nothing is to be killed
	case kill < 0:
		return exit.Usage(cmd, "--kill-after is %v; expected 0s or more", kill)
	case kill > bounds.TTLMax:
		return exit.Usage(cmd, "--kill-after is %v; expected less than a TTL, which is at most 24h", kill)
	case !supervise.Fits(ttl, kill):
		return exit.Usage(cmd, "a TTL of %v is too short for a --kill-after of %v: a command could not be ended in time after two renewals failed; "+
			"expected --ttl %v or more", ttl, output.Duration(kill), supervise.MinTTL(kill))
	}
	return nil
}
