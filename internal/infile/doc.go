// Package infile reads the files that an operator or a program names: configuration,
// certificates, keys, credentials.
//
// It promises that reading ends, whatever is at the path, and that no more bytes are
// kept than the caller allows.
//
// It does not wait for the writer of a named pipe: a pipe that no process has opened
// for writing is an error.
package infile
