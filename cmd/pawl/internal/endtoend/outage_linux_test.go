package endtoend

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
	"github.com/pawlproject/pawl/internal/trust"
)

const (
	// outageEnv is how long the server is down in TestHundredRidersLiveThroughOutage;
	// make outage sets it.
	outageEnv = "PAWL_OUTAGE"
	// Each kind of job is a hundred: these in some clients, and these of pawl run.
	tasksOfKind, commandsOfKind = 90, 10
	// tasksOfClient share a session: of one kind, of the other, or half of both.
	tasksOfClient = 20
	// writeEvery is a job's pause after a write.
	writeEvery = time.Second
)

// outageFor is a few TTLs, or what the environment says.
func outageFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(outageEnv)
	if text == "" {
		return 3 * outageTTL
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 2*outageTTL || d > 12*time.Hour {
		t.Fatalf("%s is %q: from %v to 12h was expected", outageEnv, text, 2*outageTTL)
	}
	return d
}

// hundreds are a hundred jobs that ride, and a hundred that do not.
type hundreds struct{ riders, others []guarded }

func (h *hundreds) all() []guarded { return slices.Concat(h.riders, h.others) }

func startHundreds(t *testing.T, s *server, l *ledger, outage time.Duration) *hundreds {
	t.Helper()
	ride := outage + time.Hour
	tasks := make([]guarded, 2*tasksOfKind)
	rides := func(i int) bool {
		client := i / tasksOfClient
		return client%3 == 0 || client%3 == 1 && i%2 == 0
	}
	together(t, 2*tasksOfKind/tasksOfClient, func(client int) error {
		c := dial(t, s.link, outageTTL)
		for i := client * tasksOfClient; i < (client+1)*tasksOfClient; i++ {
			var options []pawl.AcquireOption
			if rides(i) {
				options = append(options, pawl.RideThrough(ride))
			}
			j, err := startTask(t, c, l, fmt.Sprintf("task/%d", i), writeEvery, options...)
			if err != nil {
				return err
			}
			tasks[i] = j
		}
		return nil
	})
	h := &hundreds{}
	for i, j := range tasks {
		if rides(i) {
			h.riders = append(h.riders, j)
		} else {
			h.others = append(h.others, j)
		}
	}
	for i, j := range startCommands(t, 2*commandsOfKind, func(i int) *command {
		var flags []string
		if i < commandsOfKind {
			flags = []string{"--ride-through", ride.String()}
		}
		return launchCommand(t, s.link, l, fmt.Sprintf("command/%d", i), writeEvery, outage+5*bound, flags...)
	}) {
		if i < commandsOfKind {
			h.riders = append(h.riders, j)
		} else {
			h.others = append(h.others, j)
		}
	}
	if len(h.riders) != tasksOfKind+commandsOfKind || len(h.others) != tasksOfKind+commandsOfKind {
		t.Fatalf("%d ride and %d do not", len(h.riders), len(h.others))
	}
	return h
}

// The server is killed, stays away for several TTLs, and is started again on its folder. A
// hundred guarded jobs that ride go on, each under its token; a hundred that do not have
// stopped by their own deadline. All that was accepted is there, and nothing was accepted
// from a holder that had a successor.
func TestHundredRidersLiveThroughOutage(t *testing.T) {
	long(t)
	outage := outageFor(t)
	l := newLedger(t, "outage")
	s := newServer(t)
	s.up()
	h := startHundreds(t, s, l, outage)
	for _, j := range h.all() {
		if e := j.over(); e != nil {
			t.Fatalf("%v has ended before the outage: %v\n%s", j.shown(), e.why, j.told())
		}
	}

	s.signal(syscall.SIGKILL)
	s.end()
	killed := clock.Boottime()
	// No renewal that was sent later has been acknowledged.
	deadline := killed + trust.Span(outageTTL, trust.DriftPPM)
	overWithin(t, outageTTL+bound, h.others)
	var latest time.Duration
	for _, j := range h.others {
		latest = max(latest, j.over().at-killed)
		if task, ok := j.(*task); ok && !errors.Is(task.ended.why, pawl.ErrLost) {
			t.Errorf("%v ended by %v", j.shown(), task.ended.why)
		}
	}
	until(t, killed+outage)
	stopped := 0
	for _, j := range h.riders {
		if e := j.over(); e != nil {
			stopped++
			t.Errorf("%v was stopped %v after the kill: %v\n%s", j.shown(), e.at-killed, e.why, j.told())
		}
	}
	s.up()
	returned := clock.Boottime()
	goOn(t, s, h.riders)
	testwait.Until(t, bound, "every rider has written after the return", func() bool {
		return l.writersSince(t, returned) == len(h.riders)
	})
	for _, j := range h.riders {
		j.finish()
	}

	entries := l.entries(t)
	writes, inOutage, byDeadline := 0, 0, 0
	for _, j := range h.all() {
		of := entries[j.shown().Resource]
		if int64(len(of)) != j.wrote() {
			t.Errorf("%v: %d of its writes were accepted, and %d are there", j.shown(), j.wrote(), len(of))
		}
		writes += len(of)
	}
	for _, j := range h.riders {
		during, after := 0, 0
		for _, e := range entries[j.shown().Resource] {
			switch {
			case e.begun > returned:
				after++
			case e.begun > deadline:
				during++
			}
		}
		inOutage += during
		if during == 0 || after == 0 {
			t.Errorf("%v wrote %d times while it rode and %d times after the return", j.shown(), during, after)
		}
	}
	for _, j := range h.others {
		of := entries[j.shown().Resource]
		if last := of[len(of)-1].begun; last > deadline {
			t.Errorf("%v, which does not ride, began a write %v after its deadline", j.shown(), last-deadline)
			continue
		}
		byDeadline++
	}
	stale := succeed(t, s, l, h.all())
	t.Logf("riders: %d stopped: %d stale writes accepted: %d others: %d stopped by their deadline: %d; the server was down for %v; writes accepted: %d, from riding holders: %d; the last of the others stopped %v after the kill, at a TTL of %v",
		len(h.riders), stopped, stale, len(h.others), byDeadline, (returned - killed).Round(time.Second),
		writes, inOutage, latest.Round(100*time.Millisecond), outageTTL)
}

// goOn waits until every rider goes on, and each under its own token.
func goOn(t *testing.T, s *server, riders []guarded) {
	t.Helper()
	for _, j := range riders {
		testwait.Until(t, 2*bound, "the riders go on after the return", func() bool {
			if e := j.over(); e != nil {
				t.Fatalf("%v was stopped after the return: %v\n%s", j.shown(), e.why, j.told())
			}
			return j.back()
		})
		f := j.shown()
		if held := s.lookUp(f.Resource).Holders; len(held) != 1 || held[0].FencingToken != f.Token.String() {
			t.Errorf("%v goes on, and the holder is %+v", f, held)
		}
	}
}

// succeed has every job followed by one that claims, reads the balance and writes, after
// which the fence of the first tries to write, too. It returns how many stale writes were
// accepted.
func succeed(t *testing.T, s *server, l *ledger, jobs []guarded) (stale int) {
	t.Helper()
	accepted := make([]int, len(jobs))
	const clients = 5
	together(t, clients, func(client int) error {
		c := dial(t, s.link, outageTTL)
		for i := client; i < len(jobs); i += clients {
			f := jobs[i].shown()
			next, err := startTask(t, c, l, f.Resource, time.Hour)
			if err != nil {
				return err
			}
			late := clerk{ledger: l, fence: f}
			switch err := late.write(t.Context(), clock.Boottime()); {
			case err == nil:
				accepted[i] = 1
			case !errors.Is(err, guard.ErrStale):
				return err
			}
			if err := next.clerk.write(t.Context(), clock.Boottime()); err != nil {
				return err
			}
			next.finish()
		}
		return nil
	})
	entries := l.entries(t)
	for i, j := range jobs {
		f := j.shown()
		of := entries[f.Resource]
		behind, lost := tally(of, l.balanceOf(t, f.Resource))
		if behind > 0 || lost > 0 || accepted[i] > 0 {
			t.Errorf("%v: %d of its writes were accepted after its successor's, %d were lost", f, max(behind, accepted[i]), lost)
		}
		if int64(len(of)) != j.wrote()+2 {
			t.Errorf("%v: it wrote %d times and its successor twice, and %d are there", f, j.wrote(), len(of))
		}
		stale += max(behind, accepted[i])
	}
	return stale
}
