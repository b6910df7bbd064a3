package pawl

import (
	"bytes"
	"fmt"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"
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

// Bounds of what may be asked for, as servers have them.
const (
	nameMax      = 512 // bytes
	labelMax     = 256 // bytes
	namesMax     = 64
	slotsMax     = 10_000
	valueMax     = 64 << 10 // bytes
	lockDelayMax = time.Hour
)

// validate checks what the options led to, and removes names given twice.
func (s *acquireSettings) validate() error {
	if len(s.Names) > 1 {
		s.Names = unique(s.Names)
	}
	if n := len(s.Names); n > namesMax {
		return fmt.Errorf("%w: %d names were given; 1 to %d were expected", ErrInvalid, n, namesMax)
	}
	for _, name := range s.Names {
		if err := named(name); err != nil {
			return err
		}
	}
	switch {
	case s.leader && (s.Shared || s.slotted):
		return fmt.Errorf("%w: one leads at a time: neither Shared nor Slots was expected", ErrInvalid)
	case s.Shared && s.slotted:
		return fmt.Errorf("%w: a lease is either shared or one of slots", ErrInvalid)
	case s.slotted && (s.Slots < 1 || s.Slots > slotsMax):
		return fmt.Errorf("%w: %d slots were asked for; 1 to %d were expected", ErrInvalid, s.Slots, slotsMax)
	case s.LockDelay < 0 || s.LockDelay > lockDelayMax:
		return fmt.Errorf("%w: the lock-delay is %v; 0 to 1h was expected", ErrInvalid, s.LockDelay)
	case len(s.Value) > valueMax:
		return fmt.Errorf("%w: the value has %d bytes; at most %d were expected", ErrInvalid, len(s.Value), valueMax)
	}
	return checkText("label", s.Label, labelMax)
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

// named refuses what is no name. A server would end the stream over one that is
// to be observed.
func named(name string) error {
	if name == "" {
		return fmt.Errorf("%w: the name is empty; 1 to %d bytes were expected", ErrInvalid, nameMax)
	}
	if err := checkText("name", name, nameMax); err != nil {
		return err
	}
	for i, r := range name {
		if unicode.IsControl(r) {
			return fmt.Errorf("%w: the name has the control character %U at byte %d; UTF-8 without control characters was expected",
				ErrInvalid, r, i)
		}
	}
	return nil
}

// checkText refuses what could not be sent: it would break the stream for all.
func checkText(what, s string, limit int) error {
	if len(s) > limit {
		return fmt.Errorf("%w: the %s has %d bytes; at most %d were expected", ErrInvalid, what, len(s), limit)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%w: the %s is not valid UTF-8", ErrInvalid, what)
	}
	return nil
}
