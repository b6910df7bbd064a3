package guardtest

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/pawlproject/pawl/guard"
)

// fault is one way in which a guard can be wrong.
type fault string

const (
	none               fault = "none"
	acceptsLower       fault = "accepts a lower token"
	refusesEqual       fault = "refuses an equal token"
	claimRaisesNothing fault = "a claim raises nothing"
	claimUnchecked     fault = "a claim is not checked and lowers the mark"
	writeRaisesNothing fault = "a write raises nothing"
	refusedWrites      fault = "writes, then refuses"
	refusedRaises      fault = "raises the mark of what it refuses"
	unknownAsRefused   fault = "an unknown outcome is read as refused"
	unknownAsDone      fault = "an unknown outcome is read as done"
	unknownAsOther     fault = "an unknown outcome is any error"
	resolves           fault = "none: an operation whose answer was lost is done again, once"
	repeatsTwice       fault = "an operation whose answer was lost is done again, twice"
	zeroAccepted       fault = "zero is accepted"
	aboveMaxAccepted   fault = "tokens above 2^53-1 are accepted"
	foreignAccepted    fault = "another cell is accepted"
	foreignAsStale     fault = "another cell is called stale"
	cellOverwritten    fault = "a higher token of another cell takes over"
	roundsTokens       fault = "tokens are kept in single precision"
	cutsTokens         fault = "tokens are cut to 32 bits"
	comparesText       fault = "tokens are compared as text"
	foldsNames         fault = "one mark for all names"
	checksBefore       fault = "the check is outside of the transaction"
	takesTurns         fault = "operations of one holder take turns"
	checkThenAct       fault = "another operation comes between check and write"
	bareError          fault = "stale without a StaleError"
	wrongSeen          fault = "the error names a mark that was not seen"
	seenOfOwnCell      fault = "the cell of a mark is taken for granted"
	nothingIsError     fault = "a resource without a mark is an error"
	seenLater          fault = "a mark is seen after the next claim"
	seenWithoutEnd     fault = "a mark is read under a context that has ended"
	seenHidesEnd       fault = "a context that has ended is any error"

	leapsGaps       fault = "an offset leaps over a gap"
	stepsTwice      fault = "an offset is moved again"
	stepUnfenced    fault = "the token of a step is not looked at"
	stepRaisesNone  fault = "a step raises nothing"
	offsetBehind    fault = "the offset moves in a transaction of its own, later"
	offsetAhead     fault = "the offset moves in a transaction of its own, before"
	cutsOffsets     fault = "offsets are cut to 32 bits"
	foldsKeys       fault = "one offset for all keys"
	backwards       fault = "an offset may go back"
	aboveSigned     fault = "offsets above 2^63-1 are accepted"
	noKey           fault = "a step of no key is accepted"
	looksBeforeStep fault = "another step comes between the look at the offset and its move"
)

var (
	errOther = errors.New("memory: connection reset")
	errBusy  = errors.New("memory: busy")
)

// memory is a resource with a guard that is right but for its fault.
type memory struct {
	fault fault

	mu     sync.Mutex
	states map[string]guard.State
	before map[string]guard.State // the last but one of each
	lists  map[string][]string
	seqs   map[[2]string]uint64
	lose   *bool
	open   bool
}

func newMemory(f fault) *memory {
	return &memory{fault: f, states: map[string]guard.State{}, before: map[string]guard.State{}, lists: map[string][]string{}, seqs: map[[2]string]uint64{}}
}

func (m *memory) resource() Resource {
	return Resource{
		Claim:      func(_ context.Context, f guard.Fence) error { return m.do(f, "", true) },
		Append:     func(_ context.Context, f guard.Fence, text string) error { return m.do(f, text, false) },
		Read:       m.read,
		Seen:       m.seen,
		Begin:      m.begin,
		Step:       m.step,
		OffsetOf:   m.offsetOf,
		InTx:       m.inTx,
		LoseAnswer: func(landed bool) { m.lose = &landed },
		Busy:       func(err error) bool { return errors.Is(err, errBusy) },
		SideBySide: true,
	}
}

func (m *memory) read(_ context.Context, resource string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.lists[resource]), nil
}

func (m *memory) seen(ctx context.Context, resource string) (guard.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.states[m.line(resource)]
	switch {
	case ctx.Err() != nil && m.fault == seenHidesEnd:
		return guard.State{}, errOther
	case ctx.Err() != nil && m.fault != seenWithoutEnd:
		return guard.State{}, ctx.Err()
	case s.Seen == 0 && m.fault == nothingIsError:
		return guard.State{}, errOther
	case s.Seen != 0 && m.fault == seenOfOwnCell:
		s.Cell = cell
	case m.fault == seenLater:
		s = m.before[resource]
	}
	return s, nil
}

func (m *memory) line(resource string) string {
	if m.fault == foldsNames {
		return ""
	}
	return resource
}

// do is a claim, or an append of text.
func (m *memory) do(f guard.Fence, text string, claim bool) error {
	return m.answered(f, func(bool) error { return m.judged(f, text, claim) })
}

// answered does something with the lock held and answers it, or not. What is to be
// done is told whether its answer will be lost.
func (m *memory) answered(f guard.Fence, do func(lost bool) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lose != nil {
		landed := *m.lose
		m.lose = nil
		if landed {
			if err := do(true); err != nil {
				return err
			}
		}
		switch m.fault {
		case resolves, repeatsTwice:
			if landed && m.fault == resolves {
				return nil
			}
			return do(false)
		case unknownAsRefused:
			return &guard.StaleError{Resource: f.Resource, Shown: f.Token, Verdict: guard.Stale}
		case unknownAsDone:
			return nil
		case unknownAsOther:
			return errOther
		}
		return guard.ErrUnknown
	}
	return do(false)
}

// judged runs with the lock held, all but the one fault that lets go of it.
func (m *memory) judged(f guard.Fence, text string, claim bool) error {
	line := m.line(f.Resource)
	next, err := m.decide(f, claim)
	if m.fault == checkThenAct {
		m.mu.Unlock()
		for range 10 {
			runtime.Gosched()
		}
		m.mu.Lock()
	}
	if err != nil && m.fault != refusedWrites {
		if m.fault == refusedRaises && f.Token <= guard.Max {
			s := m.states[line]
			m.states[line] = guard.State{Cell: cell, Seen: max(s.Seen, f.Token)}
		}
		return err
	}
	if err == nil {
		m.before[line] = m.states[line]
		m.states[line] = next
	}
	if !claim {
		m.lists[f.Resource] = append(m.lists[f.Resource], text)
	}
	return err
}

// decide is guard.Decide, bent by the faults of the rule itself.
func (m *memory) decide(f guard.Fence, claim bool) (guard.State, error) {
	s, mark := m.states[m.line(f.Resource)], f.Mark()
	next, v := guard.Decide(guard.Monotonic, s, mark)
	bent := guard.State{Cell: f.Cell, Seen: max(s.Seen, f.Token)}
	switch {
	case m.fault == acceptsLower && v == guard.Stale && !claim,
		m.fault == zeroAccepted && f.Token == 0,
		m.fault == aboveMaxAccepted && f.Token > guard.Max:
		return bent, nil
	case m.fault == foreignAccepted && v == guard.Foreign:
		return s, nil
	case m.fault == cellOverwritten && v == guard.Foreign && f.Token > s.Seen:
		return bent, nil
	case m.fault == foreignAsStale && v == guard.Foreign:
		v = guard.Stale
	case m.fault == refusesEqual && v == guard.Pass:
		v = guard.Stale
	case m.fault == claimUnchecked && claim && v == guard.Stale:
		return guard.State{Cell: f.Cell, Seen: f.Token}, nil
	case m.fault == comparesText && (v == guard.Advance || v == guard.Stale):
		if f.Token.String() >= s.Seen.String() || s.Seen == 0 {
			return guard.State{Cell: f.Cell, Seen: f.Token}, nil
		}
		v = guard.Stale
	}
	if err := v.Err(f.Resource, s, mark); err != nil {
		switch {
		case m.fault == bareError && v == guard.Stale:
			return s, guard.ErrStale
		case m.fault == wrongSeen && v == guard.Stale:
			return s, &guard.StaleError{Resource: f.Resource, Shown: f.Token, Seen: f.Token, Verdict: v}
		}
		return s, err
	}
	switch m.fault {
	case claimRaisesNothing, writeRaisesNothing:
		if claim == (m.fault == claimRaisesNothing) && s.Seen != 0 {
			return s, nil
		}
	case roundsTokens:
		next.Seen = guard.Token(float32(next.Seen))
	case cutsTokens:
		next.Seen = guard.Token(uint32(next.Seen))
	}
	return next, nil
}

// begin checks at once and again, with the write, at the commit.
func (m *memory) begin(_ context.Context, f guard.Fence, text string) (Open, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fault == takesTurns {
		if m.open {
			return nil, errBusy
		}
		m.open = true
	}
	if _, err := m.decide(f, false); err != nil {
		m.open = false
		return nil, err
	}
	return &memoryTx{m: m, f: f, text: text}, nil
}

type memoryTx struct {
	m    *memory
	f    guard.Fence
	text string
	over bool
}

func (t *memoryTx) Commit() error {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	t.over, t.m.open = true, false
	if t.m.fault == checksBefore {
		t.m.lists[t.f.Resource] = append(t.m.lists[t.f.Resource], t.text)
		return nil
	}
	return t.m.judged(t.f, t.text, false)
}

func (t *memoryTx) Rollback() error {
	t.m.mu.Lock()
	defer t.m.mu.Unlock()
	if !t.over {
		t.over, t.m.open = true, false
	}
	return nil
}
