package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/doctor"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/cmd/pawl/internal/termsafe"
)

func newDoctor() *cobra.Command {
	var asJSON, verbose bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what needs a hand, and what to do",
		Long: `Doctor asks every server in --servers, and prints a line for each thing that needs
a hand, with what to do: servers and members that do not answer, no active server, no
leader, no member to lose, clocks that differ, a store that is full or complains,
certificates that end, standbys that are behind, versions that differ, a drill that is
on, a store or a data folder that forgets.

It changes nothing, and ends within 15 s. It needs what "pawl status" needs; with the
right admin of all names it sees everything, and else it says what it did not see.

Exit codes: 0 nothing needs a hand, 1 something does, 64 invalid usage, 69 no server
reachable, 77 not allowed.`,
		Example: "  pawl doctor\n  pawl doctor --json | jq -r '.findings[] | select(.level != \"ok\") | .text'",
		Args:    flags.None,
	}
	servers := client.AddFlags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one line of JSON, with what is well, too")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "print what is well, too")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		target, err := client.TargetOf(cmd, *servers)
		if err != nil {
			return err
		}
		ctx, stop := signals.Until(cmd.Context())
		defer stop()
		facts := doctor.Ask(ctx, target)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		found := doctor.Judge(facts)
		if asJSON {
			err = output.JSON(cmd.OutOrStdout(), doctorBody{Findings: found})
		} else {
			err = printFindings(cmd.OutOrStdout(), found, verbose)
		}
		if err != nil {
			return err
		}
		return verdict(facts, found)
	}
	return cmd
}

// doctorBody is what was found, in JSON.
type doctorBody struct {
	Findings []doctor.Finding `json:"findings"`
}

// printFindings prints what needs a hand and what was not looked at, and all else where
// that is asked for; and a count.
func printFindings(w io.Writer, found []doctor.Finding, verbose bool) error {
	rows := [][]string{}
	n := map[string]int{}
	for _, f := range found {
		n[f.Level]++
		if f.Level == doctor.OK && f.Do == "" && !verbose {
			continue
		}
		text := f.Text
		if f.Do != "" {
			text += "; to do: " + f.Do
		}
		rows = append(rows, []string{f.Level, f.Check, plainText(f.Where), plainText(text)})
	}
	if err := output.Table(w, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "errors: %d, warnings: %d, ok: %d\n", n[doctor.Error], n[doctor.Warn], n[doctor.OK])
	if err != nil {
		return fmt.Errorf("print the answer: %w", err)
	}
	return nil
}

// plainText is a text of servers as one line that no terminal obeys.
func plainText(text string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(termsafe.Text(text))
}

// verdict is the exit code.
func verdict(facts doctor.Facts, found []doctor.Finding) error {
	answered, admitted := doctor.Reached(facts)
	switch {
	case !answered:
		return exit.Failed(exit.CodeUnavailable, "no server answers")
	case !admitted:
		return exit.Failed(exit.CodeDenied, "no server lets this caller in")
	}
	for _, f := range found {
		if f.Level != doctor.OK {
			return exit.Failed(exit.CodeOther, "")
		}
	}
	return nil
}
