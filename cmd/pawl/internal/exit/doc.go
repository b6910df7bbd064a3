// Package exit holds the exit codes of pawl, and finds for every error the code that
// the program ends with and the text that it prints.
//
// It promises that no error ends with 0, and that a refusal of a server has the same
// code by whatever way it was asked: a call, HTTP or the SDK. The codes are part of the
// command line: docs/cli.md lists them, and scripts tell failures apart by them.
//
// It does not print, and does not end the program: main does. What it makes of a
// message is not yet fit for a terminal.
package exit
