// Package dialerr says in plain words why a server could not be reached.
//
// It promises:
//
//   - A failure has the same text in the SDK's errors and on the command line.
//   - An invalid address and a server that is not there have different texts.
//
// It reads the texts of gRPC's errors, because gRPC gives the cause of a failed
// connection in no other form.
//
// It does not promise to know the cause: a text that it does not know is passed on
// unchanged. Nothing may be decided by these texts.
package dialerr
