package flags

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/bounds"
)

// Mode says how a name is to be held.
type Mode struct {
	Shared    bool
	Slots     int64
	LockDelay Duration
	// Claims: the holder claims its guards before it acts. RideThrough is how long it may
	// go on without an answer.
	Claims      bool
	RideThrough Duration
}

// Add adds the flags to a command.
func (m *Mode) Add(f *pflag.FlagSet) {
	f.BoolVarP(&m.Shared, "shared", "s", false, "share the name with other shared leases")
	f.Int64Var(&m.Slots, "slots", 0, "take one of so many slots, 1 to 10000; everybody states the same number")
	f.Var(&m.LockDelay, "lock-delay", "how long the name stays closed when the lease expires or is broken by force, at most 1h (default 0s)")
	m.AddRide(f)
}

// AddRide adds the flags of claims and rides alone.
func (m *Mode) AddRide(f *pflag.FlagSet) {
	f.BoolVar(&m.Claims, "claims", false, "say that the holder claims its guards before it acts")
	f.Var(&m.RideThrough, "ride-through", "how long the holder may go on when no server answers, at most 24h; it must claim its guards, which alone stop it")
}

// Check says on the spot what the server would refuse.
func (m *Mode) Check(cmd *cobra.Command) error {
	if cmd.Flags().Changed("slots") {
		if m.Shared {
			return exit.Usage(cmd, "both --shared and --slots are given; expected one of them")
		}
		if err := bounds.ValidSlots(m.Slots); err != nil {
			return exit.Usage(cmd, "--slots: %v", err)
		}
	}
	if err := bounds.ValidLockDelay(m.LockDelay.Value); err != nil {
		return exit.Usage(cmd, "--lock-delay: %v", err)
	}
	if m.RideThrough.Given && m.RideThrough.Value == 0 {
		return exit.Usage(cmd, "--ride-through is 0s; expected more than 0s, and at most 24h")
	}
	// How many names there are is for the command to see.
	if err := bounds.ValidRide(m.RideThrough.Value, m.Claims, m.Shared, 1); err != nil {
		return exit.Usage(cmd, "--ride-through: %v", err)
	}
	return nil
}
