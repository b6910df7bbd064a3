//go:build !linux

package tuning

// CoarsenTimers does nothing: Linux alone has a timer slack.
func CoarsenTimers() {}
