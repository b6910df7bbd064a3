package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
)

// A stop of the watcher itself is put down to no server, but what no server answers
// after it is.
func TestWatcherThatWasStopped(t *testing.T) {
	const ttl = 100 * time.Millisecond
	danger := pawl.Event{Kind: pawl.Jeopardy, Remaining: ttl / 4, Err: errors.New("silent")}
	tell := func(events ...pawl.Event) (<-chan string, chan pawl.Event) {
		in, said := make(chan pawl.Event, len(events)), make(chan string, 10)
		for _, e := range events {
			in <- e
		}
		ended := time.Now().Add(-ttl / 10)
		go func() {
			defer close(said)
			tellSilence(in, ttl, func() (length, ago time.Duration) { return ttl, time.Since(ended) }, func(line string) { said <- line })
		}()
		return said, in
	}
	said, in := tell(danger)
	if line := <-said; !strings.HasPrefix(line, "no server has answered a renewal for ") {
		t.Errorf("when no server answers after a stop it says %q", line)
	}
	in <- pawl.Event{Kind: pawl.Safe}
	if line := <-said; line != "a server answers again" {
		t.Errorf("then it says %q", line)
	}
	close(in)
	said, in = tell(danger, pawl.Event{Kind: pawl.Safe})
	select {
	case line := <-said:
		t.Errorf("when a server answers at once after a stop it says %q", line)
	case <-time.After(2 * ttl):
	}
	close(in)
}
