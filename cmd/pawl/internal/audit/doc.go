// Package audit writes the audit log: one line of JSON for each record, in the order
// in which they were noted.
//
// It promises:
//
//   - Noting never blocks: lines gather in a queue of QueueMax and are written by a
//     goroutine of their own.
//   - Nothing is lost silently. A record that finds the queue full, or that cannot be
//     written, is counted (Lost) and logged. The file gets a line
//     {"verb":"lost","count":n} as soon as it can be written again.
//   - A full disk stops nothing by itself. Where the log is required, Writable is
//     false from the first line that could not be written to the next one that could.
//     Meanwhile the fronts grant nothing; renewals and releases go on. A pipe that
//     nobody reads counts as a full disk.
//   - Every request that was granted or carried out has a line of its own.
//   - Lines about refusals, and about sessions that hold nothing, are limited to
//     refusedMax a second for each identity. All callers that were not admitted share
//     one such limit. The rest is a count: {"verb":"refused","count":n}, or "strangers".
//   - No text of a line is longer than a request may make it.
//   - Reopen makes a new file at the path when the old one was moved away. No line is
//     lost between the two.
//
// It does not promise:
//
//   - that a line is on the disk when the request is answered. A crash of the process
//     loses the queued lines, a crash of the machine also the last ones written;
//   - that the file stays small: logrotate sees to that.
package audit
