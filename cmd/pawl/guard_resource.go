package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/output"
)

const (
	nameEnv = "PAWL_NAME"
	slotEnv = "PAWL_SLOT"
)

const slotHelp = `A slot has a line of its own in the guard, which is the name, U+001F and the slot's
number. Under "pawl run RESOURCE --slots N" the line is that of the slot that was
granted ($PAWL_SLOT, and $PAWL_RESOURCE is the line); elsewhere --slot says which.`

// guardedResource is what a guard keeps a mark for.
type guardedResource struct {
	// resource is the name by which the guard knows it.
	resource string
	// name and slot are what it is made of; 0: no slot.
	name string
	slot int
}

func guardedResourceOf(name string, slot int) guardedResource {
	l := guardedResource{resource: name, name: name, slot: slot}
	if slot > 0 {
		l.resource += "\x1f" + strconv.Itoa(slot)
	}
	return l
}

// String shows a line to people.
func (l guardedResource) String() string {
	if l.slot > 0 {
		return fmt.Sprintf("slot %d of %s", l.slot, output.Text(l.name))
	}
	return output.Text(l.resource)
}

// slotFlag adds --slot.
func slotFlag(f *pflag.FlagSet) *int {
	return f.Int("slot", 0, "slot of RESOURCE, from 1; 0: RESOURCE as it stands; $"+slotEnv+" when absent, where RESOURCE is $"+nameEnv)
}

// leaseResource is the line of the lease that a command runs under; there is none
// elsewhere.
func leaseResource(cmd *cobra.Command) (l guardedResource, under bool, err error) {
	name := os.Getenv(nameEnv)
	if name == "" {
		return guardedResource{}, false, nil
	}
	slot := 0
	if text := os.Getenv(slotEnv); text != "" {
		if slot, err = strconv.Atoi(text); err != nil || slot < 0 {
			return guardedResource{}, false, exit.Usage(cmd, "%s is %.40q; expected the number of a slot, or 0", slotEnv, text)
		}
	}
	return guardedResourceOf(name, slot), true, nil
}

// resolveResource determines which line is meant by RESOURCE and --slot.
func resolveResource(cmd *cobra.Command, resource string, slot int) (guardedResource, error) {
	if cmd.Flags().Changed("slot") {
		if slot < 0 {
			return guardedResource{}, exit.Usage(cmd, "--slot is %d; expected a number from 1, or 0", slot)
		}
		return guardedResourceOf(resource, slot), nil
	}
	if own, under, err := leaseResource(cmd); err != nil || under && (own.name == resource || own.resource == resource) {
		return own, err
	}
	return guardedResourceOf(resource, 0), nil
}

// checkOwn refuses to show the token of a lease to a line that is another one's:
// its lawful holder would be refused from then on.
func checkOwn(cmd *cobra.Command, l guardedResource) error {
	own, under, err := leaseResource(cmd)
	if err != nil || !under || l.resource == own.resource {
		return err
	}
	return exit.Usage(cmd, "RESOURCE is %s, and this runs under a lease of %s (%s): a claim with its token would shut out who holds %s; "+
		"--other-resource says that it is meant", l, own, nameEnv, l)
}
