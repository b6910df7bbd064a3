// Package guard holds the rule by which a resource refuses what is late or
// repeated. It does no I/O and keeps no state: an adapter (a database, a file,
// an HTTP server) applies the rule under the atomicity of its own resource.
//
// # What it promises
//
// A resource that applies [Decide] to every operation, atomically with the
// operation's effect, keeps invariant I6: once it has accepted fence t, or has
// been claimed with it, nothing below t takes effect there. It does not matter
// how long the late caller slept, what its clock says or what it believes.
//
// # What it does not promise
//
//   - Nothing is guarded that does not pass through the guard. A second path to
//     the same data, or an effect outside the resource (a mail, a call to
//     another service), is not held back.
//
//   - A check on writes alone leaves a window. Until the new holder's first
//     write the resource has not heard of it, and a late write of the old
//     holder still lands, after the new holder has read. So the order is
//
//     acquire → claim → read → act
//
//     where claim ([Claimer]) raises the resource's mark before anything is
//     read that will be acted upon.
//
//   - A mark that is deleted, or restored from a backup together with its data,
//     has forgotten its promise. Marks are never deleted by time; after a
//     restore, claim with a freshly acquired lease before opening for writes.
//
//   - Tokens of different cells are not ordered. A guard keeps the id of the
//     cell whose tokens it has seen and refuses any other ([ErrForeign]).
//
//   - A fence is not a credential: a program that can write the resource can forge
//     one, and one forged with a token of [Max] shuts everybody out.
//
// # Three outcomes
//
// An operation is done (nil), refused (the errors of this package other than
// [ErrUnknown]; nothing took effect and the mark did not move) or unknown
// ([ErrUnknown]: the answer was lost and it may have taken effect). Unknown is
// neither of the other two: clean nothing up, and repeat only what may be
// applied twice or carries an offset or a key.
//
// # One check
//
// Refusing what is late and refusing what is repeated are the same comparison
// of a [Mark] with what the resource has seen. A fencing token passes when it
// is not lower ([Monotonic]), an offset when it follows without a gap ([Exact]), an
// idempotency key when it is new ([Once]).
package guard
