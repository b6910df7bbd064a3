// Package testversity starts versitygw, a store that speaks S3, for a test: in a temporary
// folder, on a free port, with buckets that are folders.
//
//	server, err := testversity.Start("1.8")
//	defer server.Stop()
//
// It promises that the server ends with this process. Version 1.8 keeps the conditions of
// uploads; 1.7 checks them and then writes, so that some races have several winners. Both
// are built by "make pinned".
package testversity
