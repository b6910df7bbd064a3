package appends

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/pawlproject/pawl/internal/store"
)

// numberOf reads the number in a key of the log.
func numberOf(key string) (uint64, bool) {
	digits, ok := strings.CutPrefix(key, "log/")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil
}

// batchOf finds out what lies in the log.
func (w *World) batchOf(n uint64, raw []byte) *batch {
	for _, t := range w.tenures {
		for _, b := range t.batches {
			if b.number == n && bytes.Equal(b.raw, raw) {
				return b
			}
		}
	}
	w.fail("I4", "what lies in the log as batch %d is nobody's", n)
	return nil
}

// there: a batch and all before it lie in the log.
func (w *World) there(b *batch) bool { return b.number <= w.head && w.log[b.number] == b }

// landed looks at what a request did that has just landed.
func (w *World) landed(r request) {
	before := w.log
	w.changed()
	if r.of == nil {
		w.checkLog()
		return
	}
	if !bytes.Equal(w.disk.Holds(keys.Tenure()), r.by.value) {
		w.fail("I4", "batch %d of %s lands, and its tenure is not in force", r.of.number, r.by.name())
	}
	if b := before[r.of.number]; b != nil {
		w.fail("I4", "batch %d of %s lands where there is one", r.of.number, r.by.name())
	}
	w.stands(r.by, r.knew, "batch "+strconv.FormatUint(r.of.number, 10)+" lands")
	r.of.landed = true
	for _, t := range w.tenures {
		hole := false
		for _, b := range t.batches {
			// What was on its way when one before it was lost lands behind the hole.
			b.lost = !w.there(b) && (b.lost || b.landed && hole)
			hole = hole || b.lost
		}
	}
	w.checkLog()
}

// stands fails when a tenure has lost an acknowledged batch, up to one, and goes
// on as if it had not.
func (w *World) stands(t *tenure, upTo uint64, though string) {
	for _, b := range t.batches {
		if b.number <= upTo && !w.there(b) {
			w.fail("I4", "%s, and %s has lost batch %d, which was acknowledged", though, t.name(), b.number)
		}
	}
}

// checkLog looks at the log.
func (w *World) checkLog() {
	for n, b := range w.log {
		switch {
		case n > 1 && n <= w.head && b.previous != w.log[n-1].sum:
			w.fail("I4", "batch %d does not follow the one before it", n)
		case n > w.head && w.head < max(b.durable, n-min(n, store.InFlight)):
			w.fail("I4", "batch %d is missing, and by batch %d it was durable", w.head+1, n)
		}
	}
	for _, t := range w.tenures {
		for _, b := range t.batches {
			if b.number <= t.acked && !b.lost && !w.there(b) {
				w.fail("I4", "batch %d of %s was acknowledged, and is not in the log", b.number, t.name())
			}
		}
	}
}

// forget notes what a set-back took away.
func (w *World) forget() {
	for _, t := range w.tenures {
		for _, b := range t.batches {
			b.lost = b.landed && !w.there(b)
		}
	}
	w.checkLog()
}

// alarm looks at why a tenure is over. Where a claim lands again on a store that was
// set back, what its tenure read is not what it meets: it may call that damage.
func (w *World) alarm(t *tenure, err error) {
	t.phase = over
	switch {
	case errors.Is(err, store.ErrRolledBack), errors.Is(err, store.ErrDamaged) && w.wasSetBack:
		if !w.wasSetBack {
			w.fail("I4", "%s speaks of a roll-back, and there was none: %v", t.name(), err)
		}
	case errors.Is(err, store.ErrFenced):
		if bytes.Equal(w.disk.Holds(keys.Tenure()), t.value) && !w.wasSetBack {
			w.fail("I4", "%s ends and is in force: %v", t.name(), err)
		}
	default:
		w.fail("I4", "%s: %v", t.name(), err)
	}
}
