package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const (
	nameEnv = "PAWL_NAME"
	slotEnv = "PAWL_SLOT"
)

const slotHelp = `A slot has a line of its own in the guard, which is the name, U+001F and the slot's
number. Under "pawl run RESOURCE --slots N" the line is that of the slot that was
granted ($PAWL_SLOT, and $PAWL_RESOURCE is the line); elsewhere --slot says which.`

// line is what a guard keeps a mark for.
type line struct {
	// resource is the name by which the guard knows it.
	resource string
	// name and slot are what it is made of; 0: no slot.
	name string
	slot int
}

func lineOf(name string, slot int) line {
	l := line{resource: name, name: name, slot: slot}
	if slot > 0 {
		l.resource += "\x1f" + strconv.Itoa(slot)
	}
	return l
}

// String shows a line to people.
func (l line) String() string {
	if l.slot > 0 {
		return fmt.Sprintf("slot %d of %s", l.slot, shown(l.name))
	}
	return shown(l.resource)
}

// slotFlag adds --slot.
func slotFlag(f *pflag.FlagSet) *int {
	return f.Int("slot", 0, "slot of RESOURCE, from 1; 0: RESOURCE as it stands; $"+slotEnv+" when absent, where RESOURCE is $"+nameEnv)
}

// leaseLine is the line of the lease that a command runs under; there is none
// elsewhere.
func leaseLine(cmd *cobra.Command) (l line, under bool, err error) {
	name := os.Getenv(nameEnv)
	if name == "" {
		return line{}, false, nil
	}
	slot := 0
	if text := os.Getenv(slotEnv); text != "" {
		if slot, err = strconv.Atoi(text); err != nil || slot < 0 {
			return line{}, false, usage(cmd, "%s is %.40q; expected the number of a slot, or 0", slotEnv, text)
		}
	}
	return lineOf(name, slot), true, nil
}

// lineFor settles which line is meant by RESOURCE and --slot.
func lineFor(cmd *cobra.Command, resource string, slot int) (line, error) {
	if cmd.Flags().Changed("slot") {
		if slot < 0 {
			return line{}, usage(cmd, "--slot is %d; expected a number from 1, or 0", slot)
		}
		return lineOf(resource, slot), nil
	}
	if own, under, err := leaseLine(cmd); err != nil || under && (own.name == resource || own.resource == resource) {
		return own, err
	}
	return lineOf(resource, 0), nil
}

// checkOwn refuses to show the token of a lease to a line that is another one's:
// whoever holds that lawfully would be refused from then on.
func checkOwn(cmd *cobra.Command, l line) error {
	own, under, err := leaseLine(cmd)
	if err != nil || !under || l.resource == own.resource {
		return err
	}
	return usage(cmd, "RESOURCE is %s, and this runs under a lease of %s (%s): a claim with its token would shut out who holds %s; "+
		"--other-resource says that it is meant", l, own, nameEnv, l)
}
