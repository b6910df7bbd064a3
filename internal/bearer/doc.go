// Package bearer sends a credential with the calls of a connection, for the SDK
// and the command line alike.
//
// It promises that a credential leaves this machine over TLS or not at all: a
// server elsewhere is refused before it is dialled, and a connection that ended
// elsewhere all the same, as a host file may have it, before anything is sent. No
// error and nothing printable that it makes holds a credential.
//
// It does not promise that the server is the right one: a process with the key of a
// certificate that the client's authorities stand for is sent the credential.
package bearer
