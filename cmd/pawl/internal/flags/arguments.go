package flags

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Unknown complains of a word that is none of a command's.
func Unknown(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	text := fmt.Sprintf("unknown command %q", args[0])
	if meant := meantBy(cmd, args[0]); len(meant) > 0 {
		text += "; did you mean " + strings.Join(meant, " or ") + "?"
	}
	return errors.New(text)
}

// meantBy names the command that goes by that word elsewhere, or else those
// that are spelled like it.
func meantBy(cmd *cobra.Command, word string) []string {
	for _, c := range cmd.Commands() {
		if slices.Contains(c.SuggestFor, strings.ToLower(word)) {
			return []string{c.Name()}
		}
	}
	return cmd.SuggestionsFor(word)
}

// None expects no arguments.
func None(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no arguments; %q is one", cmd.Name(), args[0])
	}
	return nil
}

// Names expects exactly the arguments that it is told.
func Names(what ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		switch {
		case len(args) < len(what):
			return fmt.Errorf("%s is missing", what[len(args)])
		case len(args) > len(what):
			return fmt.Errorf("too many arguments (%q); expected %s", args[len(what)], strings.Join(what, " "))
		}
		return nil
	}
}
