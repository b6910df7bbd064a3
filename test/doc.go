// Package test is the root of a module of tests.
//
// It promises that a test library never reaches a user: what needs pgregory.net/rapid, a
// driver of SQLite or a client of ZooKeeper lies below this folder, in a go.mod of its
// own, and may still import our internal packages because its path lies below theirs.
// Nothing outside this module may import it.
package test
