// Package etcdstore keeps a cell in etcd. Embedded is a single member inside
// this process, on a data folder and without a port: one machine needs nothing
// else.
//
// The protocol that makes it safe is package kvlog's; here is what etcd needs
// around it:
//
//   - a lock of our own on the folder before etcd starts, since etcd's waits for
//     ever and says nothing;
//   - the identity of folder and lock, looked at while running: a folder swapped
//     under a running server would be written to though nobody can find it any
//     more. Files overwritten in place are not noticed;
//   - room: refused below FreeStart at the start, compaction after every
//     snapshot and as revisions and time pass, and a way back from etcd's quota
//     alarm without an operator;
//   - its last words: etcd ends the process when it cannot write its log, and
//     says why on standard error.
//
// What is acknowledged is on the disk (fsync). A data folder that is copied and
// served twice is two cells with one name; nothing here can tell.
//
// # The data folder
//
//	lock     held while a server runs; holds its process id
//	node     this node's id, drawn once
//	forming  there until the member has served for the first time
//	seen     the cluster and a revision it had reached: less is a roll-back
//	etcd/    the member
package etcdstore
