// Package tuning fits the Go runtime and the kernel's timers to a server that runs for
// long and mostly waits: the pace of the garbage collector follows the heap, memory of
// a load that is over goes back to the system, and short sleeps end a little late.
//
// It promises that the operator's settings win: GOGC, and PAWL_TIMER_SLACK=off. It
// changes only how much a server costs: a server works the same without it.
//
// SetTimerSlack starts the program again, once. Call it before anything else.
package tuning
