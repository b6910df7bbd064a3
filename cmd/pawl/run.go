package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/supervise"
	"github.com/pawlproject/pawl/internal/locktable"
)

// runFlags is how a command is to be run.
type runFlags struct {
	name string
	args []string
	cell client.Target

	// election: value is shown to others, and the command is optional.
	election bool
	value    string

	mode      flags.Mode
	nonblock  bool
	wait      flags.Duration
	ttl       flags.Duration
	killAfter flags.Duration
	maxHold   flags.Duration
	signal    string
	label     string
	conflict  int
	contain   flags.Choice
	statusFD  int
	json      bool
	quiet     bool
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

While it waits for its turn run says for whom, and asks servers that cannot be
reached again, for 10s at most; -n does not.

Exit codes: the command's; when signal n ended it, or the wait, run dies of that
signal, too (a shell shows 128+n); 64 invalid usage, 69 no server reachable, 70 the
lease was lost, given up as asked or held for --max-hold (whatever the command's
own), 75 not acquired (or --conflict-exit-code), 77 not allowed, 126 the command cannot be run, 127 there
is none. --status-fd tells whose code it is.`,
		Example: `  pawl run nightly -- ./report.sh                   wait for the turn
  pawl run nightly -n -E 0 -- ./report.sh           skip it when somebody else is at it
  pawl run gpu --slots 4 -- sh -c 'CUDA_VISIBLE_DEVICES=$((PAWL_SLOT-1)) ./train'
  pawl run leader/billing --ttl 30s -k 10s -- ./billing --serve
  pawl run deploy -w 5m -- sh -c 'deploy --token "$PAWL_FENCE"'`,
	}
	f := cmd.Flags()
	f.BoolVarP(&v.nonblock, "nonblock", "n", false, "do not wait: one try")
	f.VarP(&v.wait, "wait", "w", "how long to wait for the turn, at most 24h; 0s: one try; absent: for ever")
	v.mode.Add(f)
	f.Var(&v.maxHold, "max-hold", "how long the command may run; then it is asked to end, and killed after --kill-after; absent: for ever")
	v.register(cmd)
	return cmd
}

// register adds what run and elect have in common.
func (v *runFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	servers := client.AddFlags(f)
	v.ttl.Value = locktable.TTLDefault
	v.contain = flags.Choice{Value: string(supervise.ContainAuto), Of: []string{string(supervise.ContainAuto), string(supervise.ContainCgroup), string(supervise.ContainProcesses)}}
	f.Var(&v.ttl, "ttl", "how long the lease outlives the last sign of life; about how long others wait after a crash")
	f.VarP(&v.killAfter, "kill-after", "k", "time between the request to end and the kill (default 5s, at most a third of the TTL)")
	f.StringVar(&v.signal, "signal", "TERM", "signal that asks the command to end")
	f.StringVar(&v.label, "label", "", "what others see of the holder (default host and process)")
	f.IntVarP(&v.conflict, "conflict-exit-code", "E", supervise.CodeNotAcquired, "exit code when the lease is not acquired")
	f.Var(&v.contain, "contain", "how the command's descendants are found")
	f.IntVar(&v.statusFD, "status-fd", -1, "file descriptor that gets one line of JSON about the end")
	f.BoolVar(&v.json, "json", false, "what "+cmd.Name()+" itself has to say goes to the standard error as lines of JSON")
	f.BoolVarP(&v.quiet, "quiet", "q", false, "say nothing but errors")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cell, err := client.TargetOf(cmd, *servers)
		if err == nil {
			err = v.validate(cmd, args)
		}
		if err != nil {
			v.report(supervise.Failed(supervise.CodeUsage, supervise.ReasonUsage))
			return err
		}
		v.cell = cell
		return runUnderLease(cmd, v)
	}
}

// validate checks what the command line says before anything is asked of a server.
func (v *runFlags) validate(cmd *cobra.Command, args []string) error {
	dash := cmd.ArgsLenAtDash()
	switch {
	case v.election && dash < 0 && len(args) == 1:
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
	v.name, v.args = args[0], args[1:]
	if v.nonblock && v.wait.Given {
		return exit.Usage(cmd, "both --nonblock and --wait are given; expected one of them")
	}
	if err := checkAcquire(cmd, args[:1], flags.Duration{Value: v.ttl.Value, Given: true}, v.wait, v.label, ""); err != nil {
		return err
	}
	if err := v.mode.Check(cmd); err != nil {
		return err
	}
	if err := locktable.ValidValue([]byte(v.value)); err != nil {
		return exit.Usage(cmd, "--value: %v", err)
	}
	if v.conflict < 0 || v.conflict > 255 {
		return exit.Usage(cmd, "--conflict-exit-code is %d; expected 0 to 255", v.conflict)
	}
	if err := v.validateTimes(cmd); err != nil {
		return err
	}
	if v.maxHold.Given && v.maxHold.Value <= 0 {
		return exit.Usage(cmd, "--max-hold is %v; expected more than 0s", v.maxHold.Value)
	}
	if signalOf(v.signal) == 0 {
		return exit.Usage(cmd, "--signal is %q; expected a name such as TERM, or a number", v.signal)
	}
	if v.statusFD < 0 && cmd.Flags().Changed("status-fd") {
		return exit.Usage(cmd, "--status-fd is %d; expected the number of an open file descriptor, such as 3", v.statusFD)
	}
	if v.statusFD >= 0 {
		if _, err := unix.FcntlInt(uintptr(v.statusFD), unix.F_GETFD, 0); err != nil {
			return exit.Usage(cmd, "--status-fd is %d, which is not open", v.statusFD)
		}
		if v.statusFD > 2 {
			unix.CloseOnExec(v.statusFD) // not the command's
		}
	}
	if v.label == "" && !cmd.Flags().Changed("label") {
		v.label = fmt.Sprintf("%s pid %d", client.HostLabel(), os.Getpid())
	}
	return nil
}

func (v *runFlags) validateTimes(cmd *cobra.Command) error {
	if !v.killAfter.Given {
		v.killAfter.Value = supervise.DefaultKillAfter(v.ttl.Value)
	}
	switch ttl, kill := v.ttl.Value, v.killAfter.Value; {
	case len(v.args) == 0:
		return nil // nothing is to be killed
	case kill < 0:
		return exit.Usage(cmd, "--kill-after is %v; expected 0s or more", kill)
	case kill > locktable.TTLMax:
		return exit.Usage(cmd, "--kill-after is %v; expected less than a TTL, which is at most 24h", kill)
	case !supervise.Fits(ttl, kill):
		return exit.Usage(cmd, "a TTL of %v is too short for a --kill-after of %v: a command could not be ended in time after two renewals failed; "+
			"expected --ttl %v or more", ttl, output.Duration(kill), supervise.MinTTL(kill))
	}
	return nil
}
