//go:build !linux

package etcdstore

// fileSystem is the kind of file system that a folder is on; empty: unknown.
func fileSystem(string) string { return "" }
