package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlproject/pawl/internal/bounds"
)

// modeFlags say how a name is to be held.
type modeFlags struct {
	shared    bool
	slots     int64
	lockDelay durationFlag
}

func (m *modeFlags) register(f *pflag.FlagSet) {
	f.BoolVarP(&m.shared, "shared", "s", false, "share the name with other shared leases")
	f.Int64Var(&m.slots, "slots", 0, "take one of so many slots, 1 to 10000; everybody states the same number")
	f.Var(&m.lockDelay, "lock-delay", "how long the name stays closed when the lease expires or is broken by force, at most 1h (default 0s)")
}

// check says on the spot what the server would refuse.
func (m *modeFlags) check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("slots") {
		if m.shared {
			return usage(cmd, "both --shared and --slots are given; expected one of them")
		}
		if err := bounds.ValidSlots(m.slots); err != nil {
			return usage(cmd, "--slots: %v", err)
		}
	}
	if err := bounds.ValidLockDelay(m.lockDelay.value); err != nil {
		return usage(cmd, "--lock-delay: %v", err)
	}
	return nil
}
