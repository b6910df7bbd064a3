package runner

import (
	"os"
	"path/filepath"
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
