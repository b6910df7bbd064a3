package pawl

import "testing"

// The TTL is 3 s, as in TestCore; a span of 6 s is 5938 ms, one of 1 s 948 ms.
func TestCoreTTL(t *testing.T) {
	for name, text := range map[string]string{
		"raised: counts from the answer on": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			@100 ttl 6s
			> send finished 2 renewal 2 ttl 6s
			left 2844
			@110 renewed 2 6s
			> call 2: <nil>
			left 5928
			@550
			> send finished 2 renewal 3
			# Renewed by the new TTL from now on: a sixth of it, less a tenth.
			@551 renewed 3 6s
			@1449
			@1450
			> send finished 2 renewal 4`,

		"raised, and the answer is lost: the old TTL counts": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			@100 ttl 6s
			> send finished 2 renewal 2 ttl 6s
			@550
			> send finished 2 renewal 3
			@850
			> hang up
			@860
			> dial b session "s1" generation 2 held [5] wanted [] ttl 6s seen 5
			left 2084
			# The greeting asked.
			@870 welcome 6s
			> call 2: <nil>
			left 5928`,

		"raised, and never answered: lost by the old TTL": opened + `
			@100 ttl 6s
			> send finished 1 renewal 2 ttl 6s
			@550
			> send finished 1 renewal 3
			@850
			> hang up
			@860
			> dial b session "s1" generation 2 ttl 6s
			@1473
			> event jeopardy leases 0
			@1600
			> hang up
			@1620
			> dial a session "s1" generation 3 ttl 6s
			@2945
			> hang up
			> dial a session "" generation 1 ttl 6s giving up ["s1"]
			> event lost leases 0
			# The new session has it.
			@2950 welcome 6s
			> event safe leases 0
			> call 1: <nil>`,

		"lowered: counts from the asking on": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			@510
			> send finished 2 renewal 2
			@600 ttl 1s
			> send finished 2 renewal 3 ttl 1s
			left 948
			# Too late: it would move the deadline, one way or the other.
			@610 renewed 2
			left 938
			@620 renewed 3 1s
			> call 2: <nil>
			left 928
			@750
			> send finished 2 renewal 4
			@751 renewed 4 1s
			left 947`,

		"lowered below what is left: the session is not lost by it": opened + `
			@510
			> send finished 1 renewal 2
			@960
			> send finished 1 renewal 3
			@1259 ttl 1s
			> send finished 1 renewal 4 ttl 1s
			@1260 renewed 4 1s
			> call 1: <nil>
			@1409
			> send finished 1 renewal 5`,

		"lowered, and nobody answers": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			@100 ttl 1s
			> send finished 2 renewal 2 ttl 1s
			@250
			> send finished 2 renewal 3
			@400
			> send finished 2 renewal 4
			@550
			> send finished 2 renewal 5
			@575
			> event jeopardy leases 1
			@600
			> hang up
			@610
			> dial b session "s1" generation 2 held [5] wanted [] ttl 1s seen 5
			@1049
			> hang up
			> dial b session "" generation 1 ttl 1s seen 5 giving up ["s1"]
			> event lost leases 1`,

		"as it is": opened + `
			ttl 3s
			> call 1: <nil>`,

		"raised and taken back before the answer": opened + `
			@100 ttl 6s
			> send finished 1 renewal 2 ttl 6s
			@101 ttl 3s
			> send finished 1 renewal 3 ttl 3s
			> call 1: conflict: another call made the TTL 3s meanwhile
			@110 renewed 2 6s
			@120 renewed 3 3s
			> call 2: <nil>`,

		"two want the same": opened + `
			@100 ttl 6s
			> send finished 1 renewal 2 ttl 6s
			@101 ttl 6s
			@110 renewed 2 6s
			> call 1: <nil>
			> call 2: <nil>`,

		"a caller that gives up: what it wanted stands": opened + `
			@100 ttl 6s
			> send finished 1 renewal 2 ttl 6s
			cancel 1
			@110 renewed 2 6s
			ttl 6s
			> call 2: <nil>`,

		"while a greeting is under way": `
			> dial a session "" generation 1
			ttl 6s
			@10 welcome 3s
			> send finished 1 renewal 2 ttl 6s
			> event safe leases 0
			@20 renewed 2 6s
			> call 1: <nil>`,

		"lowered while the session comes back": opened + `
			@100 down
			> hang up
			@120
			> dial b session "s1" generation 2
			@130 ttl 1s
			@140 welcome 3s
			> send finished 1 renewal 3 ttl 1s
			@150 renewed 3 1s
			> call 1: <nil>`,

		"a stream that breaks: unsure, although it is what was granted last": opened + `
			@100 ttl 6s
			> send finished 1 renewal 2 ttl 6s
			@110 down
			> hang up
			ttl 3s
			> call 1: conflict: another call made the TTL 3s meanwhile
			@130
			> dial b session "s1" generation 2
			@140 welcome 3s
			> call 2: <nil>`,

		"a server that does not know TTLs that change": opened + `
			@100 ttl 6s
			> send finished 1 renewal 2 ttl 6s
			@110 renewed 2 none
			> call 1: invalid: the server leaves the TTL at 3s and does not make it 6s
			@550
			> send finished 1 renewal 3
			@560 renewed 3 none
			ttl 1s
			> send finished 1 renewal 4 ttl 1s
			@570 renewed 4 none
			> call 2: invalid: the server leaves the TTL at 3s and does not make it 1s
			@710
			> send finished 1 renewal 5
			@720 renewed 5 none
			ttl 3s
			> call 3: <nil>`,

		"a check waits for the renewal that took its place": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			@100 check 5
			> send finished 2 renewal 2 2:check(5)
			@101 ttl 1s
			> send finished 2 renewal 3 ttl 1s
			done 2
			@110 renewed 3 1s
			> call 2: <nil>
			> call 3: <nil>`,

		"a server that talks nonsense": opened + `
			@100 ttl 6s
			> send finished 1 renewal 2 ttl 6s
			@110 renewed 2 1ns
			> hang up
			@120
			> dial b session "s1" generation 2 ttl 6s`,

		"closed": opened + `
			@100 ttl 6s
			> send finished 1 renewal 2 ttl 6s
			close
			> send finished 1 close
			> call 1: client closed
			ttl 1s
			> call 2: client closed`,
	} {
		t.Run(name, func(t *testing.T) { runScript(t, text) })
	}
}
