package pawl

import (
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// What a client makes of servers that answer and will not have it. The TTL is 3 s.
func TestCoreWhereServersAnswerNo(t *testing.T) {
	for name, text := range map[string]string{
		// The lease is ours until its deadline, and who works under it is told at
		// once. Each server is asked, then there are pauses: every refusal is a line
		// in the server's audit log.
		"a credential that is withdrawn and comes back": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			@20 closed unauthenticated
			> hang up
			> event jeopardy leases 1
			@30
			> dial b session "s1" generation 2 held [5] wanted [] seen 5
			@31 closed unauthenticated
			> hang up
			@41
			@1030
			@1031
			> dial a session "s1" generation 3 held [5] wanted [] seen 5
			@1032 welcome 3s
			> event safe leases 1`,

		"a limit of the server's keeps nobody waiting who has no session yet": `
			> dial a session "" generation 1
			open
			closed exhausted
			> hang up
			> call 1: limit reached`,
	} {
		t.Run(name, func(t *testing.T) { runScript(t, text) })
	}
}

// One of several servers that says nothing does not use up what a Dial may take;
// one that is alone, or all that are slow, get their time.
func TestTimeOfTheFirstAttempts(t *testing.T) {
	for _, tc := range []struct {
		servers  []string
		failures int
		expected time.Duration
	}{
		{[]string{"a"}, 0, 5 * time.Second},
		{[]string{"a", "b"}, 0, 2 * time.Second},
		{[]string{"a", "b"}, 1, 2 * time.Second},
		{[]string{"a", "b"}, 2, 4 * time.Second},
		{[]string{"a", "b"}, 400, 5 * time.Second},
		{[]string{"a", "b", "c"}, 2, 2 * time.Second},
	} {
		c := newCore(tc.servers, Options{TTL: 15 * time.Second}, clock.Reading{}, func() float64 { return 0 })
		c.line.failures = tc.failures
		if got := c.attemptTime(); got != tc.expected {
			t.Errorf("%d servers, %d failures: %v, expected %v", len(tc.servers), tc.failures, got, tc.expected)
		}
	}
}
