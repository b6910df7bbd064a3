package objguard

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlproject/pawl/guard"
)

// Log is a guarded log: records in numbered slots, each written once, by creating an
// object that must not exist. It has a pointer of its own for its mark and its boundary,
// the last slot that counts as deleted. It may be used by many goroutines, whose appends take
// turns. Several processes of one lease may append; numbers have no gaps.
//
// The races, and what is against them:
//
//  1. An old holder appends late. A claim writes a fence record into the first free
//     slot. The old holder's next slot is that one, or one before it that is taken: it
//     reads what took it, finds a higher token, and is stale. It never tries a slot
//     before it has seen that all slots below are taken by tokens no higher than its own.
//     What it sees in a slot counts only if the boundary, read afterwards, is below it: a
//     late write may have come into a slot that was deleted.
//  2. Slots are deleted, and the old holder's next slot is among them: it is free again,
//     and the old holder's write succeeds. So Truncate raises the boundary before it
//     deletes anything, and an append reads the boundary after it has created its slot.
//     The other way round it fails: the old holder would read the boundary, then the slot
//     is deleted, then it creates. At or below the boundary there are two cases. The slot is
//     that of the fence: it was never the old holder's, which is stale. It is below: the
//     record may have been there in time, and was read and truncated by the new holder
//     before the old one came to read the boundary. Then the outcome is unknown.
//  3. What such a write left is an orphan at or below the boundary. A reader reads the
//     boundary after the slots, and ignores it.
//  4. A claim is late itself: its fence lands in a slot that is deleted already. It reads
//     the pointer after its fence, as an append does.
//  5. The fence is written before the pointer's mark is raised. Between the two an
//     append of a lower token is refused by the fence, and the mark shows the old token.
//  6. An old holder truncates while a new one claims, and deletes the fence. So Truncate
//     needs a fence or a record of its own token, and takes no slot away that a higher
//     token wrote: the record at the new boundary is looked at before the boundary is
//     raised, and is not written again unless the boundary was raised by another.
type Log struct {
	guard    Guard
	resource string
	mark     *Pointer

	turn turn
	// With the turn only: the slot to try, 0 where it is not known, and the fence for
	// which was found out that all slots below are of no higher token.
	next uint64
	of   guard.Fence
}

var (
	_ guard.Claimer = (*Log)(nil)
	_ guard.Seer    = (*Log)(nil)
)

const (
	// slotTries is how many slots one append tries, each taken by another process of the
	// same lease.
	slotTries = 1000
	// RecordsMax is how many slots one Read reads at most, each a record or a fence.
	RecordsMax = 1000
	// pageMax is about how many bytes of data one Read returns at most.
	pageMax = 16 << 20
	// TruncateMax is how many slots one Truncate deletes at most.
	TruncateMax = 10_000
)

// ErrTruncated: the record was deleted.
var ErrTruncated = errors.New("objguard: the record was truncated")

// Log returns the log of a resource. It sends nothing. Keep it as long as the lease
// lasts.
func (g Guard) Log(resource string) *Log {
	return &Log{
		guard: g, resource: resource, turn: newTurn(),
		mark: g.pointer(resource, g.key(resource, logPointerName)),
	}
}

// Record is a record of a log.
type Record struct {
	// Slot is the record's number, from 1. Numbers grow; those of fences are left out.
	Slot  uint64
	Token guard.Token
	Cell  string
	Data  []byte
}

func (l *Log) slots() string { return l.guard.key(l.resource, "log/") }

func (l *Log) slot(n uint64) string { return l.slots() + fmt.Sprintf("%020d", n) }

// Seen returns the cell and the highest token of the log, see [guard.Seer]; the zero State
// when it has seen none. The resource is the log's own, any other guard.ErrMalformed.
func (l *Log) Seen(ctx context.Context, resource string) (guard.State, error) {
	return l.mark.Seen(ctx, resource)
}

// Claim writes a fence record, unless the last record is of this token, and raises the
// mark to f, see [guard.Claimer]. When it returns nil no append of a lower token will be
// acknowledged, and [Log.Read] shows every one that was.
func (l *Log) Claim(ctx context.Context, f guard.Fence) error {
	_, err := l.write(ctx, f, nil, true)
	return err
}

// Append appends data, at most [DataMax] bytes, under f and returns the number of its
// slot. It is two requests: the record, then a look at the boundary.
//
//   - nil: it is in the log.
//   - guard.ErrStale, guard.ErrForeign, guard.ErrMissing, guard.ErrMalformed: refused,
//     and not in the log.
//   - guard.ErrUnknown: it may be in the log, or be there later.
//   - [ErrBusy], [ErrReset], [ErrForeignObject], the context's and the bucket's: not in
//     the log.
func (l *Log) Append(ctx context.Context, f guard.Fence, data []byte) (slot uint64, err error) {
	return l.write(ctx, f, data, false)
}

func (l *Log) write(ctx context.Context, f guard.Fence, data []byte, claim bool) (uint64, error) {
	if err := shown(f, l.resource); err != nil {
		return 0, err
	}
	if err := l.turn.take(ctx); err != nil {
		return 0, err
	}
	defer l.turn.give()
	if claim || l.of != f {
		l.next, l.of = 0, f
	}
	gone := uint64(0) // the slot of a fence that was truncated; it may have refused somebody
	told := func(err error) error {
		if gone > 0 && err != nil {
			return fmt.Errorf("%w: the fence in slot %d was truncated meanwhile, then: %v", guard.ErrUnknown, gone, err)
		}
		return err
	}
	for range slotTries {
		if l.next == 0 {
			fenced, err := l.findEnd(ctx, f)
			if err != nil || claim && fenced {
				return 0, told(err)
			}
		}
		n := l.next
		h := header{Token: f.Token, Cell: f.Cell, Nonce: newNonce(), Fence: claim}
		created, err := l.create(ctx, n, h, data, f)
		if err != nil {
			if !errors.Is(err, guard.ErrUnknown) {
				l.next = 0
			}
			return 0, told(err)
		}
		if !created {
			continue
		}
		v, err := l.guard.read(ctx, l.mark.key)
		if err != nil {
			l.next = 0
			return 0, fmt.Errorf("%w: slot %d is written, the boundary cannot be read: %w", guard.ErrUnknown, n, err)
		}
		if v.Boundary >= n {
			l.next = 0
			err := refusal(v.state(), f)
			switch {
			case err == nil && !claim, err != nil && n < v.Fenced:
				return 0, fmt.Errorf("%w: slot %d was truncated meanwhile", guard.ErrUnknown, n)
			case err != nil:
				return 0, told(err)
			}
			gone = n
			continue
		}
		l.next = n + 1
		if v.Token < f.Token || v.Cell != f.Cell {
			err := l.mark.write(ctx, f, writing{claim: true, header: func(h *header) error { h.Fenced = n; return nil }})
			// Stale: a higher token came after. This write took effect all the same, also that
			// of a claim: its fence has refused lower tokens since.
			if err != nil && !errors.Is(err, guard.ErrStale) {
				l.next = 0
				return 0, fmt.Errorf("%w: slot %d is written, the mark was not raised: %w", guard.ErrUnknown, n, err)
			}
		}
		return n, nil
	}
	return 0, told(fmt.Errorf("%w: %d slots were taken", ErrBusy, slotTries))
}

// create tries to take slot n. When it is taken by another write that f may follow, it
// returns false and has set the slot to try next.
func (l *Log) create(ctx context.Context, n uint64, h header, data []byte, f guard.Fence) (bool, error) {
	body, err := encode(h, data)
	if err != nil {
		return false, err
	}
	_, sure, err := l.guard.send(ctx, l.slot(n), bytes.NewReader(body), int64(len(body)), IfAbsent())
	if err == nil {
		return true, nil
	}
	if !refused(err) {
		return false, err
	}
	there, _, err := l.record(ctx, n)
	if err == nil && there.Nonce != h.Nonce {
		// It may be an orphan, in a slot that was truncated: it says nothing about the tokens
		// below, and the slot may have been this write's.
		var v version
		if v, err = l.guard.read(ctx, l.mark.key); err == nil && v.Boundary >= n {
			err = ErrTruncated
		}
	}
	switch {
	case sure && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrTruncated)):
		l.next = 0 // truncated meanwhile: look where the end is
		return false, nil
	case err != nil && sure:
		return false, fmt.Errorf("objguard: slot %d is taken: %w", n, err)
	case err != nil:
		return false, fmt.Errorf("%w: slot %d was taken: %w", guard.ErrUnknown, n, err)
	case there.Nonce == h.Nonce:
		return true, nil
	}
	if err := refusal(there.state(), f); err != nil {
		return false, err
	}
	l.next = n + 1
	return false, nil
}

// record reads what lies in a slot.
func (l *Log) record(ctx context.Context, n uint64) (header, []byte, error) {
	body, _, err := l.guard.get(ctx, l.slot(n))
	if err != nil {
		return header{}, nil, err
	}
	h, data, err := decode(body)
	if err == nil && h.Version != 0 {
		err = fmt.Errorf("%w: a record with a version", ErrForeignObject)
	}
	if err != nil {
		return header{}, nil, fmt.Errorf("slot %d: %w", n, err)
	}
	return h, data, nil
}

// findEnd finds the first slot that is free, and whether the last record and the mark
// are of f already. It refuses f where either is of a higher token.
func (l *Log) findEnd(ctx context.Context, f guard.Fence) (fenced bool, err error) {
	for range openTries {
		v, err := l.guard.read(ctx, l.mark.key)
		if err != nil {
			return false, err
		}
		if err := refusal(v.state(), f); err != nil {
			return false, err
		}
		last, err := l.lastSlot(ctx, v.Boundary)
		if err != nil {
			return false, err
		}
		fenced := v.Token == f.Token
		if last > v.Boundary {
			there, _, err := l.record(ctx, last)
			if errors.Is(err, ErrNotFound) {
				continue // truncated meanwhile
			}
			if err != nil {
				return false, err
			}
			// An orphan says nothing about the end.
			now, err := l.guard.read(ctx, l.mark.key)
			if err != nil {
				return false, err
			}
			if now.Boundary >= last {
				continue
			}
			if err := refusal(there.state(), f); err != nil {
				return false, err
			}
			fenced = fenced && there.Token == f.Token
		}
		l.next = last + 1
		return fenced, nil
	}
	return false, fmt.Errorf("%w: the log was truncated %d times meanwhile", ErrBusy, openTries)
}

// lastSlot returns the highest slot above one that exists; after itself where there is
// none.
func (l *Log) lastSlot(ctx context.Context, after uint64) (uint64, error) {
	last := after
	for {
		slots, more, err := l.list(ctx, last)
		if err != nil {
			return 0, err
		}
		if len(slots) > 0 {
			last = slots[len(slots)-1]
		}
		if !more || len(slots) == 0 {
			return last, nil
		}
	}
}

// list returns a page of the slots above one.
func (l *Log) list(ctx context.Context, after uint64) (slots []uint64, more bool, err error) {
	keys, more, err := l.guard.list(ctx, l.slots(), l.slot(after))
	if err != nil {
		return nil, false, err
	}
	for _, key := range keys {
		n, err := strconv.ParseUint(strings.TrimPrefix(key, l.slots()), 10, 64)
		if err != nil || key != l.slot(n) {
			return nil, false, fmt.Errorf("%w: %s among the slots of a log", ErrForeignObject, key)
		}
		slots = append(slots, n)
	}
	return slots, more, nil
}

// Page is a part of a log.
type Page struct {
	Records []Record
	// Next is where to read on: the slot after the last one that was read. When it is
	// what was asked for, there is nothing more yet. A page without records may have moved
	// on: it was of fences.
	Next uint64
}

// Read reads records from a slot on, at most [RecordsMax] slots or about 16 MiB, without
// any guard; slot 0 is where the log begins. [ErrTruncated]: there were records at from or
// after it that have been deleted. Read after the claim: before, an older holder may still
// append.
func (l *Log) Read(ctx context.Context, from uint64) (Page, error) {
	v, err := l.guard.read(ctx, l.mark.key)
	if err != nil {
		return Page{}, err
	}
	if from == 0 {
		from = v.Boundary + 1
	}
	page := Page{Next: from}
	size := 0
	for more := true; more && page.Next-from < RecordsMax && size < pageMax; {
		var slots []uint64
		slots, more, err = l.list(ctx, page.Next-1)
		if err != nil {
			return Page{}, err
		}
		last := uint64(0)
		if len(slots) > 0 {
			last = slots[len(slots)-1]
		}
		// Numbers have no gaps, but a listing may have: it may show a slot that was written
		// after it began, and miss the one before.
		for n := page.Next; n <= last && page.Next-from < RecordsMax && size < pageMax; n++ {
			h, data, err := l.record(ctx, n)
			if errors.Is(err, ErrNotFound) {
				return Page{}, fmt.Errorf("%w: slot %d", ErrTruncated, n)
			}
			if err != nil {
				return Page{}, err
			}
			page.Next, size = n+1, size+len(data)
			if !h.Fence {
				page.Records = append(page.Records, Record{n, h.Token, h.Cell, data})
			}
		}
		more = more && len(slots) > 0
	}
	// After the slots, not before: what lies at or below the boundary may have been made
	// by a write that came too late.
	if v, err = l.guard.read(ctx, l.mark.key); err != nil {
		return Page{}, err
	}
	if v.Boundary >= from {
		return Page{}, fmt.Errorf("%w: the log begins at slot %d", ErrTruncated, v.Boundary+1)
	}
	return page, nil
}

// Truncate claims under f and deletes the records up to a slot: it raises the boundary,
// then deletes what lies at or below it, up to [TruncateMax] slots; it returns how many.
// The record of that slot must exist, or be deleted already. Errors are those of
// [Pointer.Update]. After an error the boundary may have been raised and slots may be
// left; repeat it to delete them.
func (l *Log) Truncate(ctx context.Context, f guard.Fence, upTo uint64) (n int, err error) {
	if err := l.Claim(ctx, f); err != nil {
		return 0, err
	}
	raise := writing{header: func(h *header) error {
		if upTo <= h.Boundary {
			return nil
		}
		there, _, err := l.record(ctx, upTo)
		if err != nil {
			return fmt.Errorf("objguard: truncate up to slot %d: %w", upTo, err)
		}
		h.Boundary = upTo
		return refusal(there.state(), f)
	}}
	err = l.mark.write(ctx, f, raise)
	if errors.Is(err, ErrNotFound) {
		// Another process of this lease may have truncated it since the mark was read: then
		// the boundary was raised before, and a handle that knows nothing reads it.
		err = l.guard.pointer(l.resource, l.mark.key).write(ctx, f, raise)
	}
	if err != nil {
		return 0, err
	}
	for after, more := uint64(0), true; more; {
		var slots []uint64
		if slots, more, err = l.list(ctx, after); err != nil {
			return n, err
		}
		for _, s := range slots {
			if s > upTo || n == TruncateMax {
				return n, nil
			}
			if err := l.guard.bucket.Delete(ctx, l.slot(s)); err != nil {
				return n, fmt.Errorf("objguard: delete slot %d: %w", s, err)
			}
			after, n = s, n+1
		}
		more = more && len(slots) > 0
	}
	return n, nil
}
