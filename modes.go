package pawl

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/pawlproject/pawl/internal/bounds"
)

// Shared asks for a lease that others may hold at the same time, if theirs is
// shared too: many readers, or one writer. Readers that wait are granted
// together, and none that comes later overtakes a writer that waits.
//
// Readers do not fence each other: the token of [Lease.Fence] is that of the
// first lease of the present unbroken run of readers, so it fences the writers
// before them.
//
// What it does not give: a reader whose lease has expired, or that has released
// it, still passes the name's guard until the next exclusive lease has claimed
// it, or written there. So protect no writes with it, and have writers claim.
// A lease cannot be upgraded: a reader that acquires the name exclusively waits
// for itself.
func Shared() AcquireOption {
	return AcquireOption{func(s *acquireSettings) { s.Shared = true }}
}

// Slots asks for one of n places, from 1 to 10,000: a semaphore. [Lease.Slot] returns
// its number. Never more than n hold the name, and the slot of a holder that died is
// free again when its session has ended.
//
// All callers must state the same n: while the name is held or waited for with another
// one, or as a lock, an acquire fails with ErrConflict.
//
// What it does not give: a common guard. Every slot has a guard line of its own (the
// Resource of [Lease.Fence]: the name, U+001F and the number), on which the next holder
// of that slot fences the last. A holder that comes back from a long pause is refused
// there. But it may be one too many for a resource that is guarded under the name
// itself, or not guarded at all. So keep what a slot stands for, such as a connection,
// a shard or a working folder, per slot.
func Slots(n int) AcquireOption {
	return AcquireOption{func(s *acquireSettings) { s.Slots, s.slotted = n, true }}
}

// Names asks for more names, up to 64 together, under one lease: all or nothing, with
// one token. Names given twice count once. While the lease waits, it holds none of them
// and keeps its place in each of their queues, so it starves no other waiter and is not
// starved. The mode of the acquire holds for all names.
//
// What it does not give: two acquires with several names cannot deadlock, but two
// single acquires of one session, one after the other, can, as with any lock. So take
// what is needed together in one acquire.
func Names(more ...string) AcquireOption {
	return AcquireOption{func(s *acquireSettings) { s.Names = append(s.Names, more...) }}
}

// Value is shown with the lease in listings of its first name and to its observers; it
// has at most 64 KiB and does not change until the lease ends.
//
// What it does not give: privacy, or a store. Every caller that may read the name sees
// it, the cell's log keeps a copy, and it ends with the lease.
func Value(value []byte) AcquireOption {
	value = bytes.Clone(value)
	return AcquireOption{func(s *acquireSettings) { s.Value = value }}
}

// LockDelay keeps the lease's names closed for so long, at most 1 hour, after
// the lease has expired or was broken by force; after a release they are free at
// once, also when the holder let go because it was asked to. Closed means that
// no exclusive lease and no slot is granted; a shared lease is.
//
// What it does not give: safety. It is only a fallback where the resource has no
// guard: what the dead holder has sent gets that long to arrive before the next
// one begins, and a pause or a network may take longer. It is paid for with the
// time in which nobody works.
func LockDelay(d time.Duration) AcquireOption {
	return AcquireOption{func(s *acquireSettings) { s.LockDelay = d }}
}

// validate checks what the options led to, and removes names given twice.
func (s *acquireSettings) validate() error {
	if len(s.Names) > 1 {
		s.Names = unique(s.Names)
	}
	if err := invalid(bounds.ValidNames(s.Names)); err != nil {
		return err
	}
	switch {
	case s.leader && (s.Shared || s.slotted):
		return fmt.Errorf("%w: one leads at a time: neither Shared nor Slots was expected", ErrInvalid)
	case s.Shared && s.slotted:
		return fmt.Errorf("%w: a lease is either shared or one of slots", ErrInvalid)
	case s.slotted && bounds.ValidSlots(int64(s.Slots)) != nil:
		return invalid(bounds.ValidSlots(int64(s.Slots)))
	}
	for _, err := range []error{bounds.ValidLockDelay(s.LockDelay), bounds.ValidValue(s.Value), bounds.ValidLabel(s.Label)} {
		if err != nil {
			return invalid(err)
		}
	}
	return s.validateRide()
}

// unique keeps the first of equal names, in their order.
func unique(names []string) []string {
	seen := make(map[string]struct{}, len(names))
	return slices.DeleteFunc(names, func(name string) bool {
		_, twice := seen[name]
		seen[name] = struct{}{}
		return twice
	})
}

// invalid makes of what is wrong with an argument an error of the SDK; nil stays nil.
func invalid(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrInvalid, err)
}
