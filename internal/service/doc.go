// Package service is a cell as a caller may use it: the one place where a request
// that comes without a stream is checked against the caller's rights. Both fronts, the
// link's unary calls and HTTP, ask here; streams are checked by the link with the
// same words (Denied, Unauthenticated).
//
//	HTTP ──┐ access.With(ctx, caller)
//	       ├──▶ Service ─ rights ▶ cell
//	gRPC ──┘      └─── audit
//
// It promises:
//
//   - A context without a caller is refused where there is an auth file.
//   - The identity in a command is the caller's, whatever the front put there.
//   - Several names need the right on each of them. A refusal shows the holder
//     only to those who may read the name. A listing holds what may be read, and
//     its pages show nothing of the rest.
//   - Every request that was carried out or denied has its record in the audit log.
//
// It decides nothing about leases.
package service
