// Package guardproxy is "pawl guard proxy": a reverse proxy that guards a service which
// cannot be changed, by httpguard, with its marks in a SQLite file.
//
// It promises that a mark is on the disk before a request passes on it, that no two proxies
// use one state file at once, and that a proxy that did not stop cleanly is followed by one
// that knows it: what the earlier one had in flight is waited for by time.
//
// What a guard over HTTP promises and does not is told in guard/httpguard.
package guardproxy
