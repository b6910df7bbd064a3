// Package tuning fits the Go runtime and the kernel's timers to a server that runs for
// long and mostly waits: the pace of the garbage collector follows the heap, memory of
// a load that is over goes back to the system, and short sleeps end a little late.
//
// It promises nothing but a lower price: a server works the same without it. What the
// operator has set wins: GOGC, and PAWL_TIMER_SLACK=off.
//
// SetTimerSlack begins the program anew, once; it is to be called before anything else
// was done.
package tuning
