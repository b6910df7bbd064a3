// Package flags holds what the subcommands of pawl have in common in how they are
// called: values of flags (Duration, Choice), the flags for how a name is held (Mode),
// checks of arguments, flags from a YAML file, and files that hold one secret.
//
// It promises that a complaint says what was expected, that an absent flag and a zero
// differ where they mean different things, and that reading a file ends, whatever
// stands at its path.
//
// It does not know servers; the flags that say how they are reached are those of
// package client.
package flags
