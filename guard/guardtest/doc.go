// Package guardtest is the contract that every guard passes. The test of an
// adapter describes a resource under its guard as a [Resource], a list that is
// appended to, and calls [Run].
//
// # What it promises
//
// A guard that fails one of the rules breaks I6, or tells its caller something
// untrue. The package's own tests run every rule against guards that are broken
// on purpose, one way each, and see it caught.
//
// # What it does not promise
//
// The rules know the paths they are given. A second way to change the resource
// (a delete, a copy, a batch) needs to be offered through Append in another
// [Run]. The concurrent histories are random: passing them shows nothing about
// the interleavings that did not come up.
package guardtest
