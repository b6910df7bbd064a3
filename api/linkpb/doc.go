// Package linkpb is the link between client and server, generated from
// link.proto, which says what each message means.
//
// It promises that fields are never renumbered and never reused, so that an SDK
// of one minor version works with servers of the one before and the one after.
package linkpb
