// Package endtoend tests the binary as its users have it: built once, started as
// processes, asked over TCP, paused, killed, cut off and lied to by its disk.
//
//	test ──SDK, HTTP, command line──▶ relay ──▶ pawl serve ──▶ data folder
//	  └──SIGSTOP, SIGKILL, folder swapped, bytes swallowed──┘
//
// It promises that these hold for the whole binary:
//
//   - the README's examples, and docs/bounds.md;
//   - the figures of start and footprint;
//   - pawl run under a paused server and a silent network (I5, carried to processes);
//   - tokens over a log that lost its end (I1);
//   - sessions over pauses and restarts (I5, I7, I10);
//   - answers to bad input.
//
// It does not repeat what the tests of one package show.
//
// No test depends on the speed of the machine, except those of start and footprint.
// Times are compared on one clock (boot time), and time limits only end tests that hang.
package endtoend
