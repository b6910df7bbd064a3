package guardtest

import (
	"context"
	"fmt"
	"math"
	"runtime"

	"github.com/pawlproject/pawl/guard"
)

func (m *memory) offset(resource, of string) [2]string {
	if m.fault == foldsKeys {
		of = ""
	}
	return [2]string{resource, of}
}

func (m *memory) offsetOf(_ context.Context, resource, of string) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seqs[m.offset(resource, of)], nil
}

func (m *memory) step(_ context.Context, f guard.Fence, of string, prev, next uint64, text string) error {
	switch {
	case of == "" && m.fault != noKey:
		return fmt.Errorf("%w: no offset key", guard.ErrMissing)
	case prev == next, prev > next && m.fault != backwards, next > math.MaxInt64 && m.fault != aboveSigned:
		return fmt.Errorf("%w: offset from %d to %d", guard.ErrMalformed, prev, next)
	}
	return m.answered(f, func(lost bool) error { return m.stepped(f, m.offset(f.Resource, of), prev, next, text, lost) })
}

// stepped is under the lock, as answered is.
func (m *memory) stepped(f guard.Fence, at [2]string, prev, next uint64, text string, lost bool) error {
	mark, err := m.decide(f, false)
	if err != nil && m.fault != stepUnfenced {
		return err
	}
	s := m.states[m.line(f.Resource)]
	s.Seq = m.seqs[at]
	shown := f.Mark()
	shown.Prev, shown.Seq = prev, next
	if m.fault == looksBeforeStep {
		m.mu.Unlock()
		for range 10 {
			runtime.Gosched()
		}
		m.mu.Lock()
	}
	v := guard.Pass
	switch {
	case prev < s.Seq && m.fault != stepsTwice:
		v = guard.Duplicate
	case prev > s.Seq && m.fault != leapsGaps:
		v = guard.Gap
	}
	if err := v.Err(f.Resource, s, shown); err != nil {
		return err
	}
	if m.fault == cutsOffsets {
		next = uint64(uint32(next))
	}
	if m.fault != stepRaisesNone {
		m.states[m.line(f.Resource)] = mark
	}
	// What comes second of two transactions is what gets lost.
	if m.fault != offsetBehind || !lost {
		m.seqs[at] = next
	}
	if m.fault != offsetAhead || !lost {
		m.lists[f.Resource] = append(m.lists[f.Resource], text)
	}
	return nil
}
