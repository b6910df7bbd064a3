package flags

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// hintPrefix begins the annotations of a command that say what is meant by a flag that it
// does not have.
const hintPrefix = "meant by --"

// Hint has a command say what is meant instead of flags that it does not have. A hint
// that begins with a flag is for commands that have that one.
func Hint(cmd *cobra.Command, meant map[string]string) {
	for flag, instead := range meant {
		first := strings.FieldsFunc(instead, func(r rune) bool { return r == ' ' || r == ',' })[0]
		if other, ok := strings.CutPrefix(first, "--"); ok && cmd.Flags().Lookup(other) == nil {
			continue
		}
		if cmd.Annotations == nil {
			cmd.Annotations = map[string]string{}
		}
		cmd.Annotations[hintPrefix+flag] = instead
	}
}

// Complain says plainly what is wrong with a command's flag, and of one that it does not
// have what may be meant.
func Complain(cmd *cobra.Command, err error) string {
	text := Plainly(err)
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return text
	}
	name := unknown.GetSpecifiedName()
	if instead := cmd.Annotations[hintPrefix+name]; instead != "" {
		return text + "; expected " + instead
	}
	if like := spelledLike(cmd, name); len(like) > 0 {
		return text + "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return text
}

// spelledLike are the flags of a command that are spelled like a word, by the rule for
// commands.
func spelledLike(cmd *cobra.Command, word string) []string {
	among := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			among.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	var like []string
	for _, name := range among.SuggestionsFor(word) {
		like = append(like, "--"+name)
	}
	return like
}
