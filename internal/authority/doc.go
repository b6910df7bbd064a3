// Package authority holds the authorities that a client verifies servers with, and
// reads their file again for every connection, so that authorities can be added
// and removed while the client runs.
//
// It promises:
//
//   - The authorities are fresh in copies of a configuration (tls.Config.Clone), too, as
//     long as RootCAs is the pool that Load returned.
//   - When the file is missing or holds no certificate, the authorities that were read
//     last stay in force.
//   - Reading any of its files ends, and is bounded (package infile).
//
// It does not promise to notice a file that is half written: replace the file by
// renaming another one over it. It does not read the authorities of the machine again:
// crypto/x509 reads those once.
package authority
