package locktable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/pawlproject/pawl/internal/bounds"
)

func (c Acquire) valid() error {
	if err := bounds.ValidNames(c.Names); err != nil {
		return err
	}
	switch {
	case c.Mode == Slots:
		if err := bounds.ValidSlots(int64(c.Slots)); err != nil {
			return err
		}
	case c.Mode > Slots:
		return fmt.Errorf("the mode is %d; %d to %d was expected", c.Mode, Exclusive, Slots)
	case c.Slots != 0:
		return errors.New("slots were given for a lease that is not one of slots")
	}
	if c.Session == (ID{}) {
		if err := bounds.ValidTTL(c.TTL); err != nil {
			return err
		}
	}
	if err := bounds.ValidLockDelay(c.LockDelay); err != nil {
		return err
	}
	if err := bounds.ValidRide(c.Claims, c.Mode == Shared, len(c.Names), c.RideThrough); err != nil {
		return err
	}
	if err := bounds.ValidValue(c.Value); err != nil {
		return err
	}
	return bounds.ValidLabel(c.Label)
}

// fingerprint tells requests with other arguments apart.
func (c Acquire) fingerprint() uint64 {
	h := fnv.New64a()
	var n [8]byte
	text := func(s string) {
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	for _, name := range c.Names {
		text(name)
	}
	text(c.Label)
	text(string(c.Value))
	h.Write(c.Session[:])
	for _, x := range []uint64{uint64(c.TTL), uint64(c.LockDelay), uint64(c.Mode), uint64(c.Slots)} {
		binary.LittleEndian.PutUint64(n[:], x)
		h.Write(n[:])
	}
	// Nothing of an acquire that does not claim, so that a repeated request finds what was
	// granted before there were claims.
	if c.Claims {
		binary.LittleEndian.PutUint64(n[:], uint64(c.RideThrough))
		h.Write(n[:])
	}
	return h.Sum64()
}
