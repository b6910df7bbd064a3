// Package service is a cell as a caller may use it: the one place where requests are
// checked against the caller's rights and audit records are made. Both fronts ask here:
// HTTP and the link's calls without a stream by the cell's methods, a stream of the link
// by those of stream.go, since its requests come and are answered in bunches.
//
//	HTTP ──┐ access.With(ctx, caller)
//	       ├──▶ Service ── rights ──▶ cell
//	link ──┘      └─── audit
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
