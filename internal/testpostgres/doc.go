// Package testpostgres starts a PostgreSQL server of its own for a test or a
// benchmark, in a temporary folder and on a socket.
//
//	server, err := testpostgres.Start(testpostgres.Options{})
//	defer server.Stop()
//
// It needs PostgreSQL's programs (scripts/deps says how to get them). It is not for
// data: every user of the machine who can reach the socket is a superuser.
package testpostgres
