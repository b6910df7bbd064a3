// Package supervise runs a command under a lease and sees to it that nothing of
// the command is left when the lease ends.
//
//	pawl run ──orders──▶ watcher ──starts, signals, kills──▶ the command's group
//	   ▲  └──renews            │                              and what fled from it
//	   └──────reports──────────┘
//
// The watcher is the same binary once more (see WatcherMain). It is the
// command's parent and a subreaper, and holds its own copy of the lease's
// deadline. It asks the command to end (Job.Signal) at deadline − margin −
// kill-after. It kills all of it at deadline − margin, or as soon as the pipe from
// `pawl run` closes. So a `pawl run` that is stopped or killed is covered. `pawl run`
// is a subreaper too: it ends a watcher that is late, and kills everything when the
// watcher is gone.
//
// It promises, on Linux, as long as one of the two processes is alive and runs:
//
//   - No process that descends from the command is alive after the deadline
//     (invariant I5 carried to processes). That includes descendants that started a
//     session of their own or forked twice.
//   - Run returns only when none of them is left, so that the lease may be released.
//   - The same holds when the command ends by itself. A command must stay in the
//     foreground: a daemon that it leaves is killed when its first process ends.
//
// A lease that may ride through an outage has no deadline of that kind: its command goes on
// as long as the lease rides, and is ended when the lease is. ride.go has the deadlines that
// the watcher is given meanwhile. What is promised of them is that the command is ended
// within a TTL when `pawl run` does not run any more.
//
// It does not promise anything about:
//
//   - a machine on which both processes are killed or stopped at once. The command
//     itself then dies with the watcher; its descendants may not;
//   - processes that something else started for the command: a service manager, a
//     container engine, at;
//   - processes that this user may not signal, such as those of sudo, where there is
//     no control group. Run says which of them go on, and that the lease has expired;
//   - a killed process that the kernel keeps in an uninterruptible wait. Run waits
//     for it.
//
// All of it is best effort: only a guard at the resource makes a lease safe. Other Unix
// systems have the process group alone, and Windows has nothing.
//
// Instants are counts of clock.Boottime, which both processes share.
package supervise
