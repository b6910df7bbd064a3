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
	// Claims: the holder claims its guards before it acts. RideThrough is how long after
	// its last renewal it may go on without an answer.
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

// AddRide adds the flags of claims and rides only.
func (m *Mode) AddRide(f *pflag.FlagSet) {
	f.BoolVar(&m.Claims, "claims", false, "say that the holder claims a guard of the resource before it acts; it may then be granted a claim-only name")
	f.Var(&m.RideThrough, "ride-through", "how long the holder may go on without an answer after its last renewal, at most 24h; it must claim")
}

// checkRide checks --ride-through but for the number of names, which the server checks.
func (m *Mode) checkRide(cmd *cobra.Command) error {
	if !m.RideThrough.Given {
		return nil
	}
	claims := "--claims"
	if cmd.Flags().Lookup("claim") != nil {
		claims = "one of --claim and --claims"
	}
	switch {
	case !m.Claims:
		return exit.Usage(cmd, "--ride-through is given without %s; only a guard that is claimed stops a holder that goes on", claims)
	case m.Shared:
		return exit.Usage(cmd, "both --ride-through and --shared are given; expected one of them")
	}
	if err := bounds.ValidRideThrough(m.RideThrough.Value); err != nil {
		return exit.Usage(cmd, "--ride-through: %v", err)
	}
	return nil
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
	return m.checkRide(cmd)
}
