package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
)

// version is the release; a build from a checkout adds its commit.
const version = "0.1.0-dev"

// released is when this release was made. A server refuses to create a cell
// while its clock shows a time before, or more than ten years after: the first
// value of the token counter comes from the clock, and nothing can be older.
var released = time.Date(2026, time.November, 1, 0, 0, 0, 0, time.UTC)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  flags.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

func versionLine() string {
	return fmt.Sprintf("pawl %s (%s, %s/%s)\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// versionText is the version with the commit where it is known.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version
	}
	text := version
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= 12:
			text += "+" + s.Value[:12]
		case s.Key == "vcs.modified" && s.Value == "true":
			text += ".modified"
		}
	}
	return text
}
