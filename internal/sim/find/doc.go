// Command find looks for one world that fails, and prints what breaks there on
// one line. Command hunt of package planted runs it with a bug compiled in.
//
// It ends with status 0 when it found one, with 1 when there is none, and with 2
// when it cannot look.
package main
