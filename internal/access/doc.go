// Package access says who may do what.
//
//	credential, certificate ──▶ Gate ──▶ Caller ──▶ Identity.Allow(right, name)
//	                             ▲
//	                 Policy, replaced as a whole when its file is read again
//
// It promises:
//
//   - What no rule allows is denied: a caller without a proof, an identity that
//     is not in the policy, a name that no prefix covers.
//   - A decision is a pure function of the policy: it reads no clock and does no
//     I/O, and it allocates nothing.
//   - A policy is replaced at once and as a whole. An admitted caller that is not
//     allowed the same any more is put out (Gate.Set), so that nobody goes on
//     under rules that are no longer there.
//   - A credential is kept as its hash and found by a keyed hash of that one, so
//     the time a look-up takes tells nothing about the credentials that exist.
//
// It does not promise to know callers behind a proxy: who presents a proof is
// who asks. It guards no resource: a lease's holder that is put out keeps the
// lease until its session expires, because it believes in it so long, and only
// the guard at the resource stops a zombie.
package access
