package endtoend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// startCutOff starts a hundred riders behind a relay. Every second one writes so seldom
// that its guard has no chance to refuse it in time: only the mark tells it.
func startCutOff(t *testing.T, s *server, way *relay, l *ledger) []guarded {
	t.Helper()
	pause := func(i int) time.Duration {
		if i%2 == 0 {
			return writeEvery
		}
		return time.Hour
	}
	riders := make([]guarded, tasksOfKind, tasksOfKind+commandsOfKind)
	const clients = 5
	together(t, clients, func(client int) error {
		c := dial(t, way.address, outageTTL)
		for i := client; i < tasksOfKind; i += clients {
			j, err := startTask(t, c, l, fmt.Sprintf("task/%d", i), pause(i), pawl.RideThrough(time.Hour))
			if err != nil {
				return err
			}
			riders[i] = j
		}
		return nil
	})
	for _, j := range startCommands(t, commandsOfKind, func(i int) *command {
		return launchCommand(t, way.address, l, fmt.Sprintf("command/%d", i), pause(i), 5*bound, "--ride-through=1h")
	}) {
		riders = append(riders, j)
	}
	return riders
}

// A hundred riders are cut off while others are not: their leases expire, successors that
// claim are granted the names and claim, and every rider ends within two renewal intervals
// after that claim, by its guard's refusal or by its mark. Nothing of theirs lands behind it.
func TestHundredCutOffRidersEndWhenOvertaken(t *testing.T) {
	long(t)
	l := newLedger(t, "cut_off")
	s := newServer(t)
	s.up()
	way := newRelay(t, s.link)
	riders := startCutOff(t, s, way, l)
	way.set(silent)
	for _, j := range riders {
		name := j.shown().Resource
		testwait.Until(t, outageTTL+bound, "the rider's lease expires", func() bool { return len(s.lookUp(name).Holders) == 0 })
	}
	for _, j := range riders {
		if e := j.over(); e != nil {
			t.Fatalf("%v was stopped although it had no successor: %v\n%s", j.shown(), e.why, j.told())
		}
	}

	next := make([]*task, len(riders))
	const clients = 5
	together(t, clients, func(client int) (err error) {
		c := dial(t, s.link, outageTTL)
		for i := client; i < len(riders) && err == nil; i += clients {
			next[i], err = startTask(t, c, l, riders[i].shown().Resource, writeEvery)
		}
		return err
	})
	overWithin(t, bound, riders)
	var latest time.Duration
	refused, late := 0, 0
	for i, j := range riders {
		e, claimed := j.over(), l.claimed(t, next[i].shown())
		latest = max(latest, e.at-claimed)
		if e.at > claimed+2*readEvery {
			t.Errorf("%v was stopped %v after its successor's claim, by: %v", j.shown(), e.at-claimed, e.why)
		}
		if refusedByGuard(t, j, e) {
			refused++
		}
		// One that has not looked is refused all the same.
		again := clerk{ledger: l, fence: j.shown()}
		if err := again.write(t.Context(), clock.Boottime()); !errors.Is(err, guard.ErrStale) {
			t.Errorf("%v writes after its successor's claim: %v", j.shown(), err)
			late++
		}
		next[i].finish()
	}

	entries := l.entries(t)
	for i, j := range riders {
		f, of := j.shown(), entries[j.shown().Resource]
		behind, lost := tally(of, l.balanceOf(t, f.Resource))
		for _, e := range of {
			if e.token == f.Token && e.begun > l.claimed(t, next[i].shown()) {
				behind = max(behind, 1)
			}
		}
		if behind > 0 || lost > 0 || int64(len(of)) != j.wrote()+next[i].wrote() {
			t.Errorf("%v: %d of its writes landed after its successor's claim, %d were lost; it wrote %d times, its successor %d times, and %d are there",
				f, behind, lost, j.wrote(), next[i].wrote(), len(of))
		}
		late += behind
	}
	t.Logf("riders cut off: %d stopped by the guard: %d by the mark: %d at most %v after the claim (two intervals: %v) writes landed after it: %d",
		len(riders), refused, len(riders)-refused, latest.Round(10*time.Millisecond), 2*readEvery, late)
}

// refusedByGuard says whether a rider was ended by its guard's refusal; else its mark did.
func refusedByGuard(t *testing.T, j guarded, e *ending) bool {
	t.Helper()
	switch j := j.(type) {
	case *task:
		if !errors.Is(e.why, guard.ErrStale) {
			t.Errorf("%v ended by %v", j.shown(), e.why)
		}
		return !errors.Is(e.why, pawl.ErrLost) // the error of its write
	case *command:
		if !strings.HasPrefix(e.why.Error(), staleLine) {
			contains(t, j.told(), "overtaken", "the command is asked to end")
			return false
		}
	}
	return true
}

// closedFor finds how long a name is closed, in what is told to one that does not claim.
var closedFor = regexp.MustCompile(`closed (?:to acquires that do not claim, )?for ([0-9a-zµ.]+)`)

// saying is how long a name is closed as somebody who does not claim was told, and an
// instant before that.
type saying struct {
	who   string
	asked time.Duration
	left  time.Duration
}

// says asks for a name and checks that the answer tells why and for how long.
func says(t *testing.T, who string, ask func() string) saying {
	t.Helper()
	asked := clock.Boottime()
	text := ask()
	t.Logf("%s: %s", who, text)
	contains(t, text, "that do not claim", "a lease that rides through outages ended unreleased, and its holder may be going on")
	found := closedFor.FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("%s is not told for how long the name is closed:\n%s", who, text)
	}
	left, err := time.ParseDuration(found[1])
	if err != nil {
		t.Fatalf("%s: %v", who, err)
	}
	return saying{who, asked, left}
}

// A successor that does not claim is told why it waits and for how long, by every way to
// ask, and is granted when MAX is over. By then the rider has ended.
func TestSuccessorWithoutClaimWaitsForMax(t *testing.T) {
	long(t)
	const ttl, most = 5 * time.Second, 45 * time.Second
	l := newLedger(t, "waits")
	s := newServer(t)
	s.up()
	way := newRelay(t, s.link)
	rider, err := startTask(t, dial(t, way.address, ttl), l, "a", writeEvery, pawl.RideThrough(most))
	if err != nil {
		t.Fatal(err)
	}
	// One stands in line from the beginning on, and is told nothing until it has its turn.
	type grant struct {
		at    time.Duration
		rides time.Duration // what the rider believes by then
		err   error
	}
	granted := make(chan grant, 1)
	first, second := dial(t, s.link, time.Minute), dial(t, s.link, time.Minute)
	go func() {
		lease, err := first.Acquire(t.Context(), "a")
		g := grant{clock.Boottime(), rider.lease.RideLeft(), err}
		if err == nil {
			err = lease.Release(t.Context())
		}
		g.err = err
		granted <- g
	}()
	s.waits("a", 1)
	acknowledged := clock.Boottime()
	if err := rider.lease.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	way.set(silent)
	testwait.Until(t, bound, "the rider's lease expires", func() bool { return len(s.lookUp("a").Holders) == 0 })

	told := []saying{
		says(t, "TryAcquire", func() string {
			_, err := second.TryAcquire(t.Context(), "a")
			if !errors.Is(err, pawl.ErrHeld) {
				t.Errorf("TryAcquire: %v", err)
			}
			return fmt.Sprint(err)
		}),
		says(t, "Acquire", func() string {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			_, err := second.Acquire(ctx, "a")
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire: %v", err)
			}
			contains(t, fmt.Sprint(err), ", until 20")
			return fmt.Sprint(err)
		}),
		says(t, "run -n", func() string { return s.want(75, "run", "a", "-n", "--", "true").stderr }),
		says(t, "run -w", func() string {
			text := s.want(75, "run", "a", "-w", "4s", "--", "true").stderr
			contains(t, text, "until ", "not granted within 4s")
			return text
		}),
		says(t, "POST", func() string { return refusedOver(t, s, `{"name":"a"}`) }),
		says(t, "POST with a wait", func() string { return refusedOver(t, s, `{"name":"a","wait":"2s"}`) }),
	}
	if rider.over() != nil || !rider.lease.Riding() {
		t.Errorf("the rider has ended before its time: %s", rider.told())
	}

	var g grant
	select {
	case g = <-granted:
	case <-time.After(most + bound):
		t.Fatal("one that does not claim is not granted after MAX")
	}
	if g.err != nil {
		t.Fatal(g.err)
	}
	if g.rides > 0 {
		t.Errorf("one that does not claim was granted, and the rider would have gone on for %v", g.rides)
	}
	if since := g.at - acknowledged; since < ttl+most {
		t.Errorf("granted %v after the last renewal, at a TTL of %v and a MAX of %v", since, ttl, most)
	}
	for _, a := range told {
		// What is told is rounded to seconds.
		if d := g.at - a.asked - a.left; d < -time.Second {
			t.Errorf("%s was told that the name is closed for %v, %v too long", a.who, a.left, -d)
		}
	}
	overWithin(t, bound, []guarded{rider})
	contains(t, rider.told(), "no server has answered for all of its ride-through")
	if stale, lost := tally(l.entries(t)["a"], l.balanceOf(t, "a")); stale > 0 || lost > 0 {
		t.Errorf("%d stale writes, %d lost", stale, lost)
	}
	t.Logf("granted %v after the last renewal of a rider, at a TTL of %v and a MAX of %v", (g.at - acknowledged).Round(10*time.Millisecond), ttl, most)
}

// refusedOver asks for a lease over HTTP and returns the problem that it is refused with.
func refusedOver(t *testing.T, s *server, body string) string {
	t.Helper()
	res, err := web.Post("http://"+s.http+"/v1/leases", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusConflict {
		t.Errorf("%s: %d %s", body, res.StatusCode, text)
	}
	problem := read[struct{ Reason, Detail string }](t, string(text))
	if problem.Reason != "held" {
		t.Errorf("%s: refused as %q", body, problem.Reason)
	}
	return problem.Detail
}
