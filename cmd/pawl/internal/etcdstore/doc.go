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
//   - a lock of our own on the folder before etcd starts, since etcd's waits for
//     ever and says nothing;
//   - the identity of folder and lock, looked at while running: a folder swapped
//     under a running server would be written to though nobody can find it any
//     more. Files overwritten in place are not noticed;
//   - room: refused below FreeStart at the start, compaction after every
//     snapshot and as revisions and time pass, and a way back from etcd's quota
//     alarm without an operator;
//   - the next segments of its log, zeros where etcd only reserves room, so that a
//     sync is one write (segments_linux.go);
//   - its last words: etcd ends the process when it cannot write its log, and
//     says why on standard error.
//
// What is acknowledged is on the disk (fsync). A data folder that is copied and
// served twice is two cells with one name; nothing here can tell.
//
// # External
//
// A tenant of somebody else's cluster: it reads, writes and deletes below its
// prefix only, needs no right beyond that, and never compacts, defragments or
// disarms.
//
//   - every request has a bound of its own, a third of active-ttl and more for
//     large ones; a member that is too slow, or says that it cannot, is left for
//     the next (members.go, with what was rejected);
//   - nothing is sent before the cluster was found to be the one it was, at no
//     lower revision, and to take a batch of the largest size;
//   - what an operator has to know: how full the fullest member is, the alarm,
//     and whether anything compacts (past.go).
//
// An outcome that etcd does not tell stays unknown: only a refusal for want of
// room (store.ErrFull) says that nothing happened. It does not promise to notice
// a roll-back of the cluster to a revision above the one noted last.
//
// # The data folder
//
//	lock     held while a server runs; holds its process id
//	node     this node's id, drawn once
//	seen     the cluster and a revision it had reached: less is a roll-back
//	forming  embedded: there until the member has served for the first time
//	etcd/    embedded: the member
package etcdstore
