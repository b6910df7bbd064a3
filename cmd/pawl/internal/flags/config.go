package flags

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/infile"
)

// notInConfig are the flags that make no sense in a file.
var notInConfig = []string{"config", "help", "until-eof"}

// configMax bounds a file of flags, in bytes.
const configMax = 1 << 20

// ReadConfig gives a command's flags the values of a YAML file, except for those
// that stand on the command line.
func ReadConfig(cmd *cobra.Command, path string) error {
	raw, _, err := infile.Read(path, configMax, clock.System().Wall())
	if err != nil {
		return exit.Usage(cmd, "--config: %v", err)
	}
	var values map[string]yaml.Node
	if err := yaml.Unmarshal(raw, &values); err != nil {
		return exit.Usage(cmd, "--config: %s is not a YAML mapping of flags to values: %v", path, err)
	}
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		node := values[key]
		flag := cmd.Flags().Lookup(key)
		if flag == nil || slices.Contains(notInConfig, key) {
			return exit.Usage(cmd, "--config: %s has the unknown key %q in line %d; expected one of %s", path, key, node.Line, flagNames(cmd))
		}
		if flag.Changed {
			continue
		}
		if err := setFlag(flag, &node); err != nil {
			return exit.Usage(cmd, "--config: %s, %s in line %d: %s", path, key, node.Line, Plainly(err))
		}
	}
	return nil
}

func setFlag(flag *pflag.Flag, node *yaml.Node) error {
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag != "!!null":
		return flag.Value.Set(node.Value)
	case node.Kind == yaml.SequenceNode:
		list, ok := flag.Value.(pflag.SliceValue)
		if !ok {
			break
		}
		var values []string
		if err := node.Decode(&values); err != nil {
			return err
		}
		return list.Replace(values)
	}
	return fmt.Errorf("expected a %s", flag.Value.Type())
}

func flagNames(cmd *cobra.Command) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notInConfig, f.Name) {
			names = append(names, f.Name)
		}
	})
	return strings.Join(names, ", ")
}
