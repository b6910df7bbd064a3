package pawl

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
)

// The first attempt is dialled before the script begins.
const opened = `
> dial a session "" generation 1
@10 welcome 3s
> event safe leases 0
`

// The TTL is 3 s: renewals every 450 ms without jitter, trust for 2944 ms after
// the sending of the last acknowledged one, jeopardy after half of it, and a
// stream is dropped when a renewal is unanswered for 750 ms.
func TestCore(t *testing.T) {
	for name, text := range map[string]string{
		"opens, renews, is granted and releases": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			@510
			> send finished 2 renewal 2
			renewed 2
			@960
			> send finished 2 renewal 3
			renewed 3
			release 5
			> send finished 2 2:release(5)
			done 2
			> call 2: <nil>
			release 5
			> call 3: <nil>
			check 5
			> call 4: lease released`,

		"silence: another server is tried, danger, loss, and a new session that first gives up the old one": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			@510
			> send finished 2 renewal 2
			@960
			> send finished 2 renewal 3
			@1260
			> hang up
			> dial b session "s1" generation 2 held [5] wanted [] seen 5
			@1473
			> event jeopardy leases 1
			@1800
			@1822
			> hang up
			@1842
			> dial a session "s1" generation 3 held [5] wanted [] seen 5
			@2944
			> hang up
			@2945
			> dial b session "" generation 1 seen 5 giving up ["s1"]
			> event lost leases 1
			@2960 welcome 3s
			> event safe leases 0
			check 5
			> call 2: lease lost: its deadline passed before a renewal was acknowledged
			release 5
			> call 3: lease lost: its deadline passed before a renewal was acknowledged`,

		"an answer that is there counts before the deadline that it moves": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			@510
			> send finished 2 renewal 2
			# The process was stopped until after the first deadline.
			@3000 renewed 2
			> send finished 2 renewal 3
			> event jeopardy leases 1
			renewed 3
			> event safe leases 1`,

		"nothing is granted in a session whose deadline has passed": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			@2945 granted 1 5
			> hang up
			> dial a session "" generation 1 giving up ["s1"]
			> event lost leases 0
			@2950 welcome 3s
			> send finished 1 1:acquire(x)
			> event safe leases 0
			granted 1 6
			> call 1: lease 6`,

		"a welcome that took longer than the session is good for": `
			> dial a session "" generation 1
			@1400 welcome 1s
			> hang up
			> event lost leases 0
			@1410
			> dial a session "" generation 1 giving up ["s1"]`,

		"a server that talks nonsense": `
			> dial a session "" generation 1
			welcome 0s
			> hang up
			@10
			> dial b session "" generation 2
			welcome 3s
			> event safe leases 0
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 0
			> hang up
			@20
			> dial a session "s2" generation 3 held [] wanted [1]`,

		"asked again under its number, with its ticket, on the next stream": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			waiting 1
			acquire y
			> send finished 1 2:acquire(y)
			granted 2 5
			> call 2: lease 5
			release 5
			> send finished 1 3:release(5)
			down
			> hang up
			@20
			> dial b session "s1" generation 2 held [5] wanted [1 3] seen 5
			@30 welcome 3s lost=5
			> send finished 1 1:acquire(x)[ticket1] 3:release(5)
			# The first one had released it.
			refused 3 gone
			> call 3: <nil>
			granted 1 6
			> call 1: lease 6`,

		"a lease that the server lacks": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			down
			> hang up
			@20
			> dial b session "s1" generation 2 held [5] wanted [] seen 5
			@30 welcome 3s lost=5
			release 5
			> call 2: lease lost: the server no longer has it`,

		"a release of what was never known": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			release 5
			> send finished 2 2:release(5)
			refused 2 gone
			> call 2: lease lost: the server no longer has it`,

		"two releases are one": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			release 5
			> send finished 2 2:release(5)
			release 5
			done 2
			> call 2: <nil>
			> call 3: <nil>`,

		"a release that is not answered though renewals are": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			@60 release 5
			> send finished 2 2:release(5)
			@510
			> send finished 2 renewal 2
			@511 renewed 2
			@960
			> send finished 2 renewal 3
			@961 renewed 3
			@1410
			> send finished 2 renewal 4
			@1411 renewed 4
			@1860
			> send finished 2 renewal 5
			@1861 renewed 5
			@2310
			> send finished 2 renewal 6
			@2311 renewed 6
			@2444
			@2760
			> send finished 2 renewal 7
			@2761 renewed 7
			@2944
			> call 2: no server answered
			# It goes on in the background, and a second call joins it.
			release 5
			done 2
			> call 3: <nil>`,

		"a check needs the answer and the renewal": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			check 5
			> send finished 2 renewal 2 2:check(5)
			done 2
			renewed 2
			> call 2: <nil>
			check 5
			> send finished 3 renewal 3 3:check(5)
			renewed 3
			done 3
			> call 3: <nil>
			check 5
			> send finished 4 renewal 4 4:check(5)
			refused 4 gone
			> call 4: lease lost: the server no longer has it`,

		"given up before and after the grant": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			cancel 1
			> send finished 3 2:cancel(1)
			granted 1 5
			acquire y
			> send finished 3 3:acquire(y)
			granted 3 6
			> call 2: lease 6`,

		"given up while a greeting that names it is under way": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			down
			> hang up
			@20
			> dial b session "s1" generation 2 held [] wanted [1]
			cancel 1
			@30 welcome 3s
			> send finished 3 2:cancel(1)`,

		"given up while there is no connection": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			down
			> hang up
			cancel 1
			@20
			> dial b session "s1" generation 2
			@30 welcome 3s`,

		"sent where the active server is": `
			> dial a session "" generation 1
			@1 closed unavailable c
			> hang up
			> dial c session "" generation 2
			# Round in circles: with a pause.
			@2 closed unavailable a
			> hang up
			@12
			> dial a session "" generation 3`,

		"sent away in the middle": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			@20 refused 1 unavailable b
			> hang up
			> dial b session "s1" generation 2 held [] wanted [1]
			@25 welcome 3s
			> send finished 1 1:acquire(x)`,

		"the session is over at the server: waiters begin anew": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			waiting 1
			acquire y
			> send finished 1 2:acquire(y)
			granted 2 5
			> call 2: lease 5
			check 5
			> send finished 1 renewal 2 3:check(5)
			closed gone
			> hang up
			> dial a session "" generation 1 seen 5
			> event lost leases 1
			> call 3: lease lost: the server no longer has it
			@30 welcome 3s
			> send finished 1 1:acquire(x)
			> event safe leases 0`,

		"a copy of this process took the session over": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			closed conflict
			> hang up
			> dial a session "" generation 1 seen 5
			> event lost leases 1
			check 5
			> call 2: lease lost: conflict`,

		"exhausted: asked again later under a new number": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			try y
			> send finished 1 2:try(y)
			refused 2 exhausted
			> call 2: limit reached
			refused 1 exhausted
			@109
			@110
			> send finished 3 3:acquire(x)
			granted 3 5
			> call 1: lease 5`,

		"a try that nobody answers": opened + `
			try x
			> send finished 1 1:try(x)
			down
			> hang up
			closed gone
			@20
			> dial b session "s1" generation 2 held [] wanted [1]
			down
			> hang up
			@30
			> dial a session "s1" generation 3 held [] wanted [1]
			@41 welcome 3s
			> send finished 1 1:try(x)
			@541
			> send finished 1 renewal 4
			@542 renewed 4
			@3011
			> send finished 3 renewal 5 2:cancel(1)
			> event jeopardy leases 0
			> call 1: no server answered`,

		"held": opened + `
			try x
			> send finished 1 1:try(x)
			refused 1 held
			> call 1: held by another lease (token 0)`,

		"denied": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			closed denied
			> hang up
			> event jeopardy leases 0
			> call 1: denied`,

		"closed by us": opened + `
			acquire x
			> send finished 1 1:acquire(x)
			granted 1 5
			> call 1: lease 5
			acquire x
			> send finished 2 2:acquire(x)
			close
			> send finished 3 close
			> call 2: client closed
			release 5
			> call 3: client closed
			acquire z
			> call 4: client closed
			closed
			> hang up`,

		"closed by us without a server": opened + `
			down
			> hang up
			close
			> dial b session "s1" generation 2
			@1009
			> hang up
			@1010`,

		"closed while the greeting is under way": `
			> dial a session "" generation 1
			@10 welcome 3s
			> event safe leases 0
			down
			> hang up
			@20
			> dial b session "s1" generation 2
			close
			@30 welcome 3s
			> send finished 1 close
			closed
			> hang up`,
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) { runScript(t, text) })
	}
}

func newScript(t *testing.T) *script {
	s := &script{t: t, lease: map[guard.Token]*Lease{}}
	s.c = newCore([]string{"a", "b"}, Options{TTL: 3 * time.Second}, clock.Reading{}, func() float64 { return 0 })
	s.c.tick()
	s.carryOut()
	s.input([]string{"welcome", "3s"})
	s.c.tick()
	s.carryOut()
	s.out = nil
	return s
}

// A waiter that waits while many others come and go gets a new number, and
// shows its ticket.
func TestALongWaiterIsRenumbered(t *testing.T) {
	s := newScript(t)
	s.input([]string{"acquire", "x"})
	s.input([]string{"waiting", "1"})
	s.c.tick()
	s.carryOut()
	s.c.next = spreadMax
	s.out = nil
	s.c.tick()
	s.carryOut()
	if len(s.out) != 0 {
		t.Fatalf("too early: %q", s.out)
	}
	s.c.next++
	s.c.tick()
	s.carryOut()
	want := fmt.Sprintf("send finished %d %d:acquire(x)[ticket1]", spreadMax+1, spreadMax+1)
	if len(s.out) != 1 || s.out[0] != want {
		t.Fatalf("got %q, want %q", s.out, want)
	}
}

func TestTooManyAcquires(t *testing.T) {
	s := newScript(t)
	for range outstandingMax {
		c := newCall(callAcquire)
		c.wants.names, c.ctx = []string{"x"}, t.Context()
		s.c.begin(c)
	}
	c := newCall(callAcquire)
	s.c.begin(c)
	if !errors.Is(c.err, ErrExhausted) {
		t.Fatalf("the one too many: %v", c.err)
	}
	m := s.c.message()
	rest := m
	for n := 0; rest != nil; n++ {
		m, rest = split(rest)
		if len(m.Requests) > requestsMax || m.Close {
			t.Fatalf("part %d has %d requests", n, len(m.Requests))
		}
	}
}
