// Package audit writes the audit log: one line of JSON for each record, in the order
// in which they were noted.
//
// It promises:
//
//   - Noting never blocks: lines gather in a queue of QueueMax and are written by a
//     goroutine of their own.
//   - Nothing is lost silently. What finds the queue full, and what cannot be
//     written, is counted (Lost), logged, and stands in the file as a line
//     {"verb":"lost","count":n} as soon as that can be written again.
//   - A full disk stops nothing by itself. Where the log is required, Able is
//     false from the first line that could not be written to the first that could,
//     and the fronts grant nothing meanwhile; renewals and releases go on. A pipe
//     that nobody reads is as good as a full disk.
//   - What is granted or done has a line each, but for sessions that hold nothing.
//     Of those, and of what is refused, an identity has refusedMax lines a second,
//     and so have all together who were not let in; the rest is a count,
//     {"verb":"refused","count":n} or "strangers". No text of a line is longer than
//     one that could be granted.
//   - Reopen makes the path a new file when the old one was moved away, without a
//     line lost between them.
//
// It does not promise that a line is on the disk when what it tells of is answered: a
// crash of the machine may cost the last lines, one of the process those that
// were queued. It keeps no file of its own size: that is logrotate's work.
package audit
