package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
)

const (
	groupStart   = "start"
	groupHold    = "hold"
	groupOperate = "operate"
	groupOther   = "other"
)

func newRoot() *cobra.Command {
	cobra.EnableCommandSorting = false
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Locks and leases with fencing tokens",
		Long: `pawl grants leases. Each carries a fencing token that only ever goes up, and the
resource itself refuses a token that has been overtaken: a holder that was
paused, cut off or given up for dead can do no harm when it comes back.`,
		Example: `  pawl demo zombie                      see it happen, with real processes
  pawl serve                            a server on 127.0.0.1, data in ./pawl-data
  pawl run nightly -- ./report.sh       run a command while holding a lease`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       versionText(),
		Args:          flags.Unknown,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SuggestionsMinimumDistance = 2
	root.SetVersionTemplate(versionLine())
	root.AddGroup(
		&cobra.Group{ID: groupStart, Title: "To begin with:"},
		&cobra.Group{ID: groupHold, Title: "To hold a lease:"},
		&cobra.Group{ID: groupOperate, Title: "To see and to mend:"},
		&cobra.Group{ID: groupOther, Title: "Other:"},
	)
	in := func(group string, cmds ...*cobra.Command) {
		for _, c := range cmds {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	in(groupStart, newDemo(), newServe())
	in(groupHold, newRun(), newElect(), newAcquire(), newRenew(), newRelease())
	in(groupOperate, newLs(), newShow(), newLeader(), newBreak(), newStatus(), newDoctor(), newMember(), newLog(), newTrace(), newDrill(), newGuard(), newExplain())
	in(groupOther, newAuth(), newVersion())
	root.AddCommand(newDemoWorker())
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	root.SetHelpCommand(newHelp(root))
	root.InitDefaultCompletionCmd()
	if c, _, err := root.Find([]string{"completion"}); err == nil {
		// Only what runs has its arguments looked at.
		c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return exit.Usage(cmd, "%s", flags.Complain(cmd, err)) })
	hint(root)
	strict(root)
	return root
}

// newHelp is cobra's, but for a name that is none of a command: that is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "Help about any command",
		GroupID: groupOther,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return exit.Usage(root, "there is no command %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// strict turns every complaint about arguments into a usage error.
func strict(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return exit.Usage(c, "%v", err)
			}
			return nil
		}
	}
	for _, c := range cmd.Commands() {
		strict(c)
	}
}
