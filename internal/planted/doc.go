// Package planted holds the switch of the planted bugs: mistakes that this field
// ships, one line each, in the places where we would have made them.
//
//	if planted.Is("release by name") { … }
//
// It promises that without the build tag planted Is is the constant false, so
// that nothing of a planted bug is compiled into anything that is shipped.
// With the tag exactly one bug at a time is there, the one that Plant names, and
// the simulator must find it: a checker that has caught no planted bug is no
// checker. docs/planted.md lists them all.
package planted
