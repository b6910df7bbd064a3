// Package etcdstore keeps a cell in etcd: in a member inside this process
// (Embedded), in such members of several servers (Quorum), or below a prefix of a
// cluster that others run (External).
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
// # Quorum
//
// A member like that, one of three or five. What it does when it starts, found the
// cluster, join it, go on, wait or refuse, is decided by package founding, from what the
// peers answer before etcd runs. There is one address for peers: what is below /pawl/ is
// ours, the rest etcd's. Package peerconn has the certificates and the bounds of the
// connections there.
//
//		empty ─▶ joining ─▶ learner ─▶ voter ─▶ its place: the store is in use
//		     └─▶ founding ─▶ a majority of --peers are voters ─┘
//
//	  - The store is open at once and fails every request until the member has its place.
//	  - A joiner's folder is thrown away until its member takes part (forming); from then
//	    on never, and only then does it ask for its vote. A new id is drawn for every join:
//	    the leader would take a second log of one id for the first one.
//	  - The founder serves nobody before a majority has joined. So a founder that loses
//	    its disk before that may found again.
//	  - A member that leads keeps what the others have acknowledged, as far as it is
//	    committed, and tells them when they start: a folder that ends before that is old.
//	  - Who may join beside --peers, and who may not any more, lies in the cluster
//	    (roster.go).
//	  - Recovery makes a new cluster of the member that is left (recover.go).
//	  - Two processes of one member are told apart by the others, and the later one stops
//	    (twins.go); so does a server that is alone in its folder and not in fact (watch.go).
//	  - The leader takes back the quota alarm of a member that is gone (upkeep.go).
//
// It does not notice an old folder when nobody is up that knew how far it had come, nor a
// majority of folders that are set back together.
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
//	founding quorum: there until a majority has joined its founder
//	alone    quorum: the member is rightly the only voter
//	etcd/    embedded: the member
package etcdstore
