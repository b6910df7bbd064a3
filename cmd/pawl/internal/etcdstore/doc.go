// Package etcdstore keeps a cell in etcd: in a member inside this process
// (Embedded), or below a prefix of a cluster that others run (External).
//
// The protocol that makes it safe is package kvlog's (I4); here is what etcd
// needs around it.
//
// # Embedded
//
// A single member on a data folder, without a port: one machine needs nothing
// else.
//
//   - A lock of our own on the folder, taken before etcd starts: etcd would wait for
//     its own lock for ever, without a message.
//   - A check, while the server runs, that folder and lock are still the same files. A
//     server whose folder was swapped would write to files that nobody can find. Files
//     overwritten in place are not noticed.
//   - Room on the disk: no start below FreeStart; a compaction after every snapshot,
//     and as revisions and time pass; recovery from etcd's quota alarm without an
//     operator.
//   - The next segments of etcd's log, written as zeros where etcd only reserves room,
//     so that a sync is one write (segments_linux.go).
//   - The reason on standard error when etcd cannot write its log: etcd then ends the
//     process (zaplog.go).
//
// It promises that what is acknowledged is on the disk (fsync). It does not notice a
// data folder that is copied and served twice: that is two cells with one name.
//
// # External
//
// A tenant of somebody else's cluster: it reads, writes and deletes below its
// prefix only, needs no right beyond that, and never compacts, defragments or
// disarms.
//
//   - Every request has a deadline of its own: a third of active-ttl, more for large
//     ones. When a member is too slow or reports that it cannot serve, the next one is
//     asked (members.go, with what was rejected).
//   - Nothing is written before three checks: the cluster is the one of before, its
//     revision is not lower, and it takes a batch of the largest size.
//   - An operator is told how full the fullest member is, whether the alarm is raised,
//     and whether anything compacts (past.go).
//
// An errored write is an unknown write, except that store.ErrFull says that nothing
// happened. It does not promise to notice a cluster that was rolled back to a revision
// above the one noted last.
//
// # The data folder
//
//	lock     held while a server runs; holds its process id
//	node     this node's id, drawn once
//	seen     the cluster and a revision it had reached: less is a roll-back
//	forming  embedded: there until the member has served for the first time
//	etcd/    embedded: the member
package etcdstore
