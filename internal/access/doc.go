// Package access holds identities and their rights, and admits callers.
//
//	credential, certificate ──▶ Gate ──▶ Caller ──▶ Identity.Allow(right, name)
//	                             ▲
//	                 Policy, replaced as a whole when its file is read again
//
// It promises:
//
//   - Everything that no rule allows is denied: a caller without a credential or
//     certificate, an identity that is not in the policy, a name that no prefix covers.
//   - A decision is a pure function of the policy: it reads no clock and does no
//     I/O, and it allocates nothing.
//   - A policy is replaced at once and as a whole. An admitted caller whose
//     rights have changed is evicted (Gate.Set), so that no caller goes on
//     under old rules.
//   - A credential is kept as its hash and found by a keyed hash of that one, so
//     the time of a look-up shows nothing about the credentials that exist.
//
// It does not promise to know callers behind a proxy: the caller is the process that
// presents the credential. It guards no resource: an evicted holder keeps its
// lease until its session expires, because it trusts the lease for that long, and only
// the guard at the resource stops a zombie.
package access
