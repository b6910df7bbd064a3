// Package authority holds the authorities that a client verifies servers with, and
// reads their file again for every connection, so that authorities can be added
// and removed while the client runs.
//
// It promises that a copy of a configuration (tls.Config.Clone) is followed like
// the original, as long as RootCAs is the pool that Load returned, and that a file
// that is missing or holds no certificate leaves in force what was read last.
//
// It does not promise to notice a file that is half written: replace a file by
// renaming another one over it. The authorities of the machine are read once, by
// crypto/x509. What is read, Pair's files too, is bounded as package infile does it.
package authority
