//go:build planted

package planted

// Here: bugs can be planted in this build.
const Here = true

var present string

// Plant plants one bug in place of the one before; "": none. Not while anything
// runs.
func Plant(bug string) { present = bug }

// Is reports whether a bug is planted.
func Is(bug string) bool { return bug == present }
