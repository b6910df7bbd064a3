// Package runner is "pawl run" and "pawl elect" from their first request to their exit
// code: it looks for a server, waits for the lease, has package supervise run the
// command under it (or leads without a command), releases the lease, and says how it
// came out.
//
// It promises:
//
//   - The command is not started without a lease, and a lease that was granted while a
//     signal ended the wait is given back.
//   - The exit code says when the lease was lost, whatever the command's own is; the
//     answer to the release is part of that.
//   - What it has to say never waits for a reader and never goes to the standard
//     output, which is the command's.
//
// It does not keep the command from writing after the lease is lost: it ends it in time
// by best effort. A guard at the resource makes that safe.
package runner
