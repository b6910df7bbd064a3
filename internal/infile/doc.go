// Package infile reads the files that an operator or a program names: configuration,
// certificates, keys, credentials.
//
// It promises that reading comes to an end, whatever stands at the path, and that no
// more is kept than the caller allows.
//
// It does not promise to wait for somebody who has yet to open a named pipe: that is
// an error.
package infile
