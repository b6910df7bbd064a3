package locktable

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/pawlproject/pawl/internal/bounds"
)

// TooMany says why an acquire of so many names is refused, however many of them are
// equal; nil: it may pass. It is asked before an acquire waits to be decided.
func TooMany(names []string) error {
	if len(names) > 2*bounds.NamesMax {
		return errNames(len(names))
	}
	return nil
}

func errNames(n int) error {
	return fmt.Errorf("%d names were given; 1 to %d were expected", n, bounds.NamesMax)
}

func (c Acquire) valid() error {
	if len(c.Names) < 1 || len(c.Names) > bounds.NamesMax {
		return errNames(len(c.Names))
	}
	for _, name := range c.Names {
		if err := bounds.ValidName(name); err != nil {
			return err
		}
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
	return h.Sum64()
}
