// Torture runs a cell of three servers and three members, each in a network namespace
// of its own, hurts them by a schedule of faults, and checks what its workers saw.
//
//	torture -store quorum|etcd [-duration 5m] [-seed N]
//
// It makes one user namespace, with namespaces of processes, mounts and networks, in
// which all its processes live; when the first of them ends, however it does, the
// kernel ends the others and removes the rest. Nothing outside is changed, and nothing
// inside has a way out to another network.
//
//	     bridge, 10.77.0.1 (the runner)
//	┌──────┬──────┬──────┬──────┐
//	m1     m2     m3     w1     w2         quorum: a server with its member
//	e1 e2 e3  s1 s2 s3   w1     w2         etcd: members and servers apart
//
// The schedule comes from the seed: partitions (both ways, one way, flapping), loss,
// delay, SIGSTOP, SIGKILL, and full disks, one or two at a time, with pauses. Some name
// "the active server" and mean the one that is active at that moment. Loss and
// partitions are rules of nftables where packets arrive. Delay is a relay in the
// namespace of the one that connects, through which its connections are redirected.
//
// Workers acquire, work and release on names that both namespaces of workers contend
// for. Some do not claim. Others claim a guard in SQLite and write a counter through it;
// some of these ride, and some are deaf to the end of their lease, so that only the
// guard stops them. The names below "broken/" are broken by force now and then. All
// is recorded with readings of the boot clock, which all processes here share:
//
//   - overlaps: two leases of a name that were trusted at once. A lease is trusted from
//     its grant until the deadline that its holder was last shown, or until the holder
//     began to release it, or was told that it had ended. Leases that may ride, and
//     names that are broken by force, are left out.
//   - stale writes accepted: entries that follow one of a higher token.
//   - lost: writes that were accepted and are missing, or were written over. Leases that
//     ended without a reason are not among them; they are told separately.
//   - unavailable: how long nobody was granted anything while a majority of members was
//     up and connected, with a server that reaches it and a worker that reaches that
//     server. A process counts as up from its start on, a link as connected when nothing
//     cuts it or loses packets on it. Each change of the faults gives one sample: the
//     longest time without a grant that begins between it and the next change, or in the
//     tenth of a second before it.
//
// The last line is "overlaps: 0 stale writes accepted: 0 lost: 0 unavailable max: 4.1s
// p99: 3.9s", and the exit code 1 when one of the first three is not 0, when a process
// ended that no fault ended, or when the run showed nothing.
package main
