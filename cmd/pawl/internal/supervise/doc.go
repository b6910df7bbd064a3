// Package supervise runs a command under a lease and sees to it that nothing of
// the command is left when the lease ends.
//
//	pawl run ──orders──▶ watcher ──starts, signals, kills──▶ the command's group
//	   ▲  └──renews            │                              and what fled from it
//	   └──────reports──────────┘
//
// The watcher is the same binary once more (see WatcherMain). It is the
// command's parent and a subreaper, and holds its own copy of the lease's
// deadline: it asks the command to end (Job.Signal) at deadline − margin −
// kill-after and kills all of it at deadline − margin, or as soon as the pipe
// from `pawl run` closes. So a `pawl run` that is stopped or killed is covered. `pawl run` is a
// subreaper too: it ends a watcher that is late, and kills everything when the
// watcher is gone.
//
// What is promised on Linux, as long as one of the two processes is alive and
// runs: no process that descends from the command is alive after the deadline
// (invariant I5 carried to processes), and Run returns only when none is, so
// that the lease may be released. Descendants that started a session of their
// own or forked twice are included. That goes for the command's own end, too: a
// command must stay in the foreground, one that makes a daemon of itself has the
// daemon killed when its first process ends.
//
// What is not promised: anything when both processes are killed or stopped at
// once (the command itself then dies with the watcher, its descendants may
// not); processes that something else started on the command's behalf (a
// service manager, a container engine, at); processes that this user may not
// signal (sudo and others that become somebody else, without a control group: Run
// says which processes run on, and that the lease has run out under them); a
// kernel that keeps a killed process in an uninterruptible wait: Run waits for it,
// and does not return before. All of it is best effort: only a guard at the resource makes a
// lease safe. On other Unix systems the means is the process group alone; there
// is nothing on windows.
//
// Instants are counts of clock.Boottime, which both processes share.
package supervise
