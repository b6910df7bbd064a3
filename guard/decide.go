package guard

import "fmt"

// Policy says which mark may follow which, once its token has passed.
type Policy uint8

const (
	// Monotonic lets many operations pass under one token: fencing alone.
	Monotonic Policy = iota + 1
	// Exact passes when Mark.Prev is the last Seq: offsets, where a gap is an
	// error as well.
	Exact
	// Once passes when Mark.Key is new; an operation done before is answered
	// from its record.
	Once
)

// Mark is what an operation shows. Cell and Token are compared first, then
// what the policy needs.
type Mark struct {
	// Token is 1 to Max, Cell the id of the cell that granted it, not empty.
	Token Token
	Cell  string
	// Seq is, under Exact, the number that the operation moves the resource to (above
	// Prev). Under Once it is the position of Key in an order of keys, such as the time
	// of its making; 0 when keys have no order.
	Seq uint64
	// Prev is the Seq that an Exact operation follows.
	Prev uint64
	// Key names the operation under Once. Derive it from the operation, never
	// from the token: two holders must arrive at the same key.
	Key string
	// Print is a fingerprint of what Key stands for, so that the same key with
	// another operation is noticed.
	Print [32]byte
}

// State is what a resource remembers. Its zero value is a resource that has
// seen nothing.
type State struct {
	// Cell is the cell whose tokens the resource has seen; empty before the
	// first one.
	Cell string
	// Seen is the highest token accepted or claimed.
	Seen Token
	// Floor is for resources whose mark may have been removed: a token below Floor is
	// stale, whatever Seen is.
	Floor Token
	// Seq is the last one accepted under Exact. Under Once the records
	// of keys at or below it may have been dropped; 0: none was.
	Seq uint64
	// Done says that a record is kept under the mark's key, Print is its
	// fingerprint. Once alone reads and sets them.
	Done  bool
	Print [32]byte
}

// Verdict is what is decided about one operation.
type Verdict uint8

const (
	// Pass: run the operation.
	Pass Verdict = iota + 1
	// Advance: run the operation; the mark rises with it.
	Advance
	// Replay (Once): it was done before; answer from the record, run nothing. A
	// higher token raises the mark, since its holder acts on the answer.
	Replay

	// Stale: the resource has seen a higher token.
	Stale
	// Foreign: the resource has seen tokens of another cell.
	Foreign
	// Duplicate (Exact): it was done before.
	Duplicate
	// Gap (Exact): an operation before it is missing.
	Gap
	// Conflict (Once): the key was used for another operation.
	Conflict
	// Forgotten (Once): older than the records that are kept, so it may have
	// been done before.
	Forgotten
	// Missing: no token, or no key under Once.
	Missing
	// Malformed: a token above Max, no cell, an Exact step that does not go
	// forward, an unknown policy.
	Malformed
)

// Decide returns the verdict on an operation that shows m to a resource in state s, and
// the state afterwards. A refusal (Stale and all verdicts after it) returns s
// unchanged.
//
// A claim is a decision under [Monotonic] with no operation to run.
func Decide(p Policy, s State, m Mark) (State, Verdict) {
	if v := m.check(p); v != Pass {
		return s, v
	}
	if s.Cell != m.Cell && (s.Cell != "" || s.Seen != 0) {
		return s, Foreign
	}
	if m.Token < max(s.Seen, s.Floor) {
		return s, Stale
	}
	next, v := s, Pass
	if m.Token > s.Seen {
		v = Advance
	}
	next.Cell, next.Seen = m.Cell, m.Token

	switch p {
	case Exact:
		if m.Prev < s.Seq {
			return s, Duplicate
		}
		if m.Prev > s.Seq {
			return s, Gap
		}
		next.Seq = m.Seq
	case Once:
		if s.Done {
			if s.Print != m.Print {
				return s, Conflict
			}
			return next, Replay
		}
		if s.Seq != 0 && m.Seq <= s.Seq {
			return s, Forgotten
		}
		next.Done, next.Print = true, m.Print
	}
	return next, v
}

// check returns Pass, Missing or Malformed.
func (m Mark) check(p Policy) Verdict {
	switch {
	case m.Token == 0:
		return Missing
	case m.Token > Max || m.Cell == "":
		return Malformed
	case p == Once && m.Key == "":
		return Missing
	case p == Exact && m.Seq <= m.Prev:
		return Malformed
	case p < Monotonic || p > Once:
		return Malformed
	}
	return Pass
}

var (
	policyNames  = [...]string{"", "monotonic", "exact", "once"}
	verdictNames = [...]string{
		"", "pass", "advance", "replay", "stale", "foreign", "duplicate", "gap",
		"conflict", "forgotten", "missing", "malformed",
	}
)

// String returns the name in lower case, for logs and metrics.
func (p Policy) String() string {
	if p == 0 || int(p) >= len(policyNames) {
		return fmt.Sprintf("policy(%d)", uint8(p))
	}
	return policyNames[p]
}

// String returns the name in lower case, for logs and metrics.
func (v Verdict) String() string {
	if v == 0 || int(v) >= len(verdictNames) {
		return fmt.Sprintf("verdict(%d)", uint8(v))
	}
	return verdictNames[v]
}
