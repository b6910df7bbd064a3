// Package endtoend tests the binary as its users have it: built once, started as
// processes, asked over TCP, paused, killed, cut off and lied to by its disk.
//
//	test ──SDK, HTTP, command line──▶ relay ──▶ pawl serve ──▶ data folder
//	  └──SIGSTOP, SIGKILL, folder swapped, bytes swallowed──┘
//
// What it shows is on the way from a user's hand to the disk and back: the
// README's examples, docs/bounds.md, start and footprint, pawl run under a
// paused server and a silent network (I5, carried to processes), tokens over a
// log that lost its end (I1), sessions over pauses and restarts (I5, I7, I10),
// and answers to bad input. Every part has tests of its own elsewhere; what only
// parts can show is not repeated here.
//
// No verdict rests on how fast the machine is: instants are compared on one
// clock (boot time), and bounds are for hanging alone, save the start's and the
// footprint's, which are figures.
package endtoend
