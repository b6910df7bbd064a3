package testwait

import (
	"testing"
	"time"
)

// Poll is the pause between two looks at a condition.
const Poll = 2 * time.Millisecond

// Until returns when cond holds, and fails the test when it does not within
// bound. The last argument says what was waited for.
func Until(t testing.TB, bound time.Duration, what string, cond func() bool) {
	t.Helper()
	if !Holds(bound, cond) {
		t.Fatalf("not within %v: %s", bound, what)
	}
}

// Holds reports whether cond became true within bound.
func Holds(bound time.Duration, cond func() bool) bool {
	for end := time.Now().Add(bound); ; time.Sleep(Poll) {
		if cond() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}
