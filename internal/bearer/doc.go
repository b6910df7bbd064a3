// Package bearer sends a credential with the calls of a connection, for the SDK
// and the command line alike.
//
// It promises:
//
//   - A credential leaves this machine over TLS or not at all. Without TLS, an address
//     beyond the loopback is refused before it is dialled. A connection that leads to
//     another machine all the same, through an entry of the host file, is closed before
//     anything is sent.
//   - No error and no printed value contains a credential.
//
// It does not promise that the server is the right one. Every server whose certificate
// the client's authorities have signed is sent the credential.
package bearer
