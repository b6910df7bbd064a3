//go:build !linux

package tuning

// SetTimerSlack does nothing: Linux alone has a timer slack.
func SetTimerSlack() {}
