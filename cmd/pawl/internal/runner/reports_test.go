package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
)

// fixed is a lease of which always the same time is left.
type fixed time.Duration

func (f fixed) Remaining() time.Duration { return time.Duration(f) }
func (f fixed) RideLeft() time.Duration  { return time.Duration(f) }

// An event of before a grant, or of before a renewal that was answered, is told as
// nothing; one that is still true is.
func TestOldEventIsNoDanger(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	say := func(left time.Duration, events ...pawl.Event) string {
		t.Helper()
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		v := &Options{Args: []string{"true"}, TTL: flags.Duration{Value: 15 * time.Second}, KillAfter: flags.Duration{Value: 5 * time.Second}}
		r := &running{Options: v, words: speak(f)}
		h := &renewals{running: r}
		h.granted(fixed(left))
		all := make(chan pawl.Event, len(events))
		for _, e := range events {
			all <- e
		}
		close(all)
		h.watch(all)
		r.words.end()
		said, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(said)
	}
	// Nothing is said after the reason for the end.
	after := func(end func(*renewals)) (said []string) {
		v := &Options{Args: []string{"true"}, TTL: flags.Duration{Value: 15 * time.Second}, KillAfter: flags.Duration{Value: 5 * time.Second}}
		h := &renewals{running: &running{Options: v, words: &words{lines: make(chan string, 64)}}}
		h.granted(fixed(7400 * time.Millisecond))
		events := make(chan pawl.Event)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			h.watch(events)
		}()
		events <- pawl.Event{Kind: pawl.Jeopardy, Remaining: 7500 * time.Millisecond}
		events <- pawl.Event{Kind: pawl.StoreRolledBack} // the first is told when this is taken
		end(h)
		events <- pawl.Event{Kind: pawl.Safe, Remaining: 15 * time.Second}
		close(events)
		<-watched
		close(h.words.lines)
		for line := range h.words.lines {
			said = append(said, line)
		}
		return said
	}
	if said := after((*renewals).end); len(said) != 1 {
		t.Errorf("with the reason for the end behind the first it says %q", said)
	}
	if said := after(func(*renewals) {}); len(said) != 2 {
		t.Errorf("without an end it says %q", said)
	}
	danger, over := pawl.Event{Kind: pawl.Jeopardy, Remaining: 7500 * time.Millisecond}, pawl.Event{Kind: pawl.Safe, Remaining: 15 * time.Second}
	for _, old := range [][]pawl.Event{{danger}, {danger, over}, {{Kind: pawl.Lost}, over}} {
		if said := say(14*time.Second, old...); said != "" {
			t.Errorf("%v is told as %q", old, said)
		}
	}
	if said := say(9*time.Second, pawl.Event{Kind: pawl.Jeopardy, Remaining: 5 * time.Second}); said != "" {
		t.Errorf("when the command's time is over it says %q", said)
	}
	const now = "no server has answered a renewal for 7.6s; unless that changes, the command is asked to end in 2.2s\n"
	if said := say(7400*time.Millisecond, danger, over); said != "pawl run: "+now+"pawl run: renewals are answered again\n" {
		t.Errorf("it says %q", said)
	}
}

// riding is a lease that may ride for an hour.
type riding struct{}

func (riding) Remaining() time.Duration { return 0 }
func (riding) RideLeft() time.Duration  { return time.Hour }

// A ride is told when it begins and when it ends, by an answer or by the lease's end; with
// --json as events of their own. Behind the reason for the end nothing is told.
func TestRideIsTold(t *testing.T) {
	say := func(json bool, do func(*renewals, chan<- pawl.Event)) (said []string) {
		v := &Options{
			Name: "a", Args: []string{"true"}, JSON: json, TTL: flags.Duration{Value: 15 * time.Second},
			Mode: flags.Mode{Claims: true, RideThrough: flags.Duration{Value: time.Hour, Given: true}},
		}
		h := &renewals{running: &running{Options: v, words: &words{lines: make(chan string, 64)}}}
		h.granted(riding{})
		events := make(chan pawl.Event)
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			h.watch(events)
		}()
		do(h, events)
		close(events)
		<-watched
		close(h.words.lines)
		for line := range h.words.lines {
			said = append(said, line)
		}
		return said
	}
	expect := func(said []string, want ...string) {
		t.Helper()
		if len(said) != len(want) {
			t.Fatalf("it says %q, expected %q", said, want)
		}
		for i := range said {
			if ok, err := regexp.MatchString("^"+want[i]+"$", said[i]); err != nil || !ok {
				t.Errorf("it says %q, expected %q", said[i], want[i])
			}
		}
	}
	const at = `20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`
	begins := "no server answers: the lease rides on its guard, until " + at + " at the latest"
	answered := func(_ *renewals, events chan<- pawl.Event) {
		events <- pawl.Event{Kind: pawl.Jeopardy, Remaining: 7500 * time.Millisecond}
		events <- pawl.Event{Kind: pawl.Riding, Err: pawl.ErrUnavailable}
		events <- pawl.Event{Kind: pawl.Safe, Remaining: 15 * time.Second}
		events <- pawl.Event{Kind: pawl.Safe, Remaining: 15 * time.Second}
	}
	threatens := `no server has answered a renewal for 15s; unless that changes, the lease begins to ride on its guard in 7\.5s`
	expect(say(false, answered), "pawl run: "+threatens, "pawl run: "+begins,
		`pawl run: a server answers again; the lease goes on under the same token, after riding [0-9.]+m?s`)
	lost := func(h *renewals, events chan<- pawl.Event) {
		events <- pawl.Event{Kind: pawl.Riding, Err: fmt.Errorf("renew: %w: revoked", pawl.ErrDenied)}
		events <- pawl.Event{Kind: pawl.StoreRolledBack} // the first is told when this is taken
		h.end()
		h.end()
		events <- pawl.Event{Kind: pawl.Safe, Remaining: 15 * time.Second}
		events <- pawl.Event{Kind: pawl.Riding}
	}
	expect(say(false, lost),
		`pawl run: the server refuses to renew the lease \(.*revoked\): it rides on its guard, until `+at+" at the latest",
		`pawl run: the ride is over, after [0-9.]+m?s`)
	expect(say(true, answered), `.*"event":"notice".*`,
		`{"event":"riding","name":"a","text":"`+begins+`","until":"`+at+`"}`,
		`{"event":"ride_ended","lost":false,"name":"a","rode":"[0-9.]+m?s","text":".*"}`)
	expect(say(true, func(h *renewals, events chan<- pawl.Event) {
		events <- pawl.Event{Kind: pawl.Riding}
		events <- pawl.Event{Kind: pawl.StoreRolledBack}
		h.end()
	}), `{"event":"riding",.*}`, `{"event":"ride_ended","lost":true,.*}`)
}
