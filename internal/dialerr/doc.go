// Package dialerr says in plain words why a server could not be reached.
//
// It promises that the same failure reads the same wherever it shows, in the
// SDK's errors and on the command line, and that an address that cannot be one
// is told from a server that is not there. It reads texts: gRPC gives the cause
// of a failed connection as nothing else. A text that it does not know is shown
// as it is.
//
// It does not promise to know the cause: an error of a kind that it does not
// know is passed on as gRPC worded it, and nothing may be decided by its text.
package dialerr
