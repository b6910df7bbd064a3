// Package signals connects the signals of a process with contexts: a context that a
// signal ends, a channel that has a value after each, and a death by a signal for a
// program that is to end as if it had not caught it.
//
// It promises that a signal that was ignored when the process was started (HUP under
// nohup, INT in the background of a shell) stays ignored, and that a second signal
// kills a program that is still ending because of the first.
//
// It does not pass signals on to other processes: package supervise does.
package signals
