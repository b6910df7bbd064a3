package step

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/testscript"
)

// TestStep runs the scripts of the step.
func TestStep(t *testing.T) {
	testscript.RunAll(t, "testdata", func(t *testing.T) func(string) []string {
		s := &stepper{t: t, wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
		return s.run
	})
}

// stepper drives a core by hand.
type stepper struct {
	t    *testing.T
	c    *Core
	now  clock.Reading
	wall time.Time
}

func stepID(name string) locktable.ID {
	sum := sha256.Sum256([]byte(name))
	return locktable.ID(sum[:])
}

// receiver is somebody who asked.
type receiver struct{ _ byte }

func (*receiver) Receive(uint64, locktable.Answer) {}

func (s *stepper) run(line string) []string {
	words := strings.Fields(line)
	arg := ""
	if len(words) > 1 {
		arg = words[1]
	}
	switch words[0] {
	case "begin":
		s.c = newCore(locktable.New(bounds.DefaultLimits), 1, store.Nonce{1})
		s.c.table.Found("test-0123456789abcdef", []byte("secret"), &s.c.decided)
		s.c.opening(s.wall, 0)
		s.c.Begun(s.now)
	case "advance":
		d, err := time.ParseDuration(arg)
		if err != nil {
			s.t.Fatal(err)
		}
		s.now, s.wall = s.now.Add(d), s.wall.Add(d)
	case "step":
		s.step(strings.TrimPrefix(line, "step"))
	case "land":
		if s.c.inFlight[s.number(arg)] == nil {
			s.t.Fatalf("batch %s is not on its way", arg)
		}
		s.c.Landed(s.number(arg))
	case "confirm":
		s.c.Answered(arg == "ok")
	case "ask":
		s.c.Ask(s.now)
	case "want":
		s.c.wantSnapshot = true
	case "full":
		s.c.Full()
	case "tight":
		s.c.tight = arg == "on"
	case "state":
		u := s.c.time
		return []string{fmt.Sprintf("last=%d durable=%d open=%d groups=%d counted=%v pending=%v high=%v backlogged=%v",
			s.c.last, s.c.durable, len(s.c.open), len(s.c.groups), u.low, u.pending, u.high(s.now), s.c.Backlogged())}
	default:
		s.t.Fatalf("unknown command %q", line)
	}
	return s.actions()
}

func (s *stepper) number(w string) uint64 {
	n, err := strconv.ParseUint(w, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// step takes one turn; commands are separated by semicolons.
func (s *stepper) step(line string) {
	complete := true
	var urgent, acquires []locktable.Command
	for part := range strings.SplitSeq(line, ";") {
		w := strings.Fields(part)
		if len(w) == 0 {
			continue
		}
		switch w[0] {
		case "open":
			urgent = append(urgent, locktable.OpenSession{Ref: w[1], New: stepID(w[1]), TTL: 2 * time.Second})
		case "renew":
			r := locktable.Renew{Ref: w[1], Session: stepID(w[1])}
			if len(w) > 2 {
				r.TTL, _ = time.ParseDuration(w[2])
			}
			urgent = append(urgent, r)
		case "acquire":
			acquires = append(acquires, locktable.Acquire{
				Ref: w[1], Names: w[2:3], Session: stepID(w[1]), Try: true, Lease: stepID(w[1] + w[2]),
			})
		case "release":
			urgent = append(urgent, locktable.Release{Ref: w[1], Lease: stepID(w[1] + w[2])})
		case "list":
			l := locktable.List{Ref: w[1]}
			if len(w) > 3 {
				l.After = w[3]
			}
			if len(w) > 2 {
				l.Prefix, _ = strings.CutSuffix(w[2], "*")
				if !strings.HasSuffix(w[2], "*") {
					l.Name = w[2]
				}
			}
			urgent = append(urgent, l)
		case "attach":
			urgent = append(urgent, locktable.Attach{Ref: w[1], New: stepID(w[1]), Generation: 1, TTL: time.Hour})
		case "reattach":
			// A session that is there, on its first stream.
			x := locktable.Attach{Ref: w[1], Session: stepID(w[1]), Generation: 1}
			switch w[2] {
			case "lost":
				x.Held = []uint64{1}
			case "told":
				x.Cell, x.Highest = s.c.table.Cell(), s.c.table.Counts().Counter+1<<20
			}
			urgent = append(urgent, x)
		case "check":
			// The lease that was granted last.
			urgent = append(urgent, locktable.Check{
				Ref: w[1], Session: stepID(w[1]), Generation: 1, Token: s.c.table.Counts().Counter,
			})
		case "observe":
			urgent = append(urgent, locktable.Observe{Ref: w[1], Session: stepID(w[1]), Generation: 1, Name: w[2]})
		case "close":
			urgent = append(urgent, locktable.Close{Ref: w[1], Session: stepID(w[1])})
		case "many":
			for i := range s.number(w[1]) {
				id := fmt.Sprintf("many %d", i)
				urgent = append(urgent, locktable.OpenSession{New: stepID(id), TTL: time.Hour, Label: strings.Repeat("x", 256)})
			}
		case "incomplete":
			complete = false
		default:
			s.t.Fatalf("unknown command %q", part)
		}
	}
	s.c.Step(s.now, s.wall, urgent, acquires, complete)
}

func (s *stepper) actions() (out []string) {
	a := s.c.Take()
	for _, b := range a.Appends {
		batch, _, err := store.OpenBatch(b.Raw)
		if err != nil {
			s.t.Fatal(err)
		}
		kinds := ""
		for i, e := range batch.Events {
			if i == 4 {
				kinds += fmt.Sprintf(" … %d in all", len(batch.Events))
				break
			}
			kinds += " " + strings.ToLower(strings.TrimPrefix(e.Kind.String(), "KIND_"))
		}
		out = append(out, fmt.Sprintf("append %d (durable %d):%s", b.Number, batch.Durable, kinds))
	}
	if a.Confirm {
		out = append(out, fmt.Sprintf("begin confirm of turn %d", s.c.asked))
	}
	for _, g := range a.Groups {
		for _, r := range g.Replies {
			answer := strings.TrimPrefix(fmt.Sprintf("%T", r.Answer), "locktable.")
			switch a := r.Answer.(type) {
			case locktable.Refused:
				answer += " " + string(a.Reason)
			case locktable.Renewed:
				answer += " " + a.TTL.String()
			case locktable.Page:
				for _, l := range a.Locks {
					answer += fmt.Sprintf(" %s:%d", l.Name, len(l.Holders))
				}
			case locktable.Observed:
				answer += fmt.Sprintf(" %s held=%v", a.Name, a.Token != 0)
			}
			out = append(out, fmt.Sprintf("→ %v: %s", r.To, answer))
		}
	}
	if a.Snapshot != nil {
		n := 0
		for range a.Snapshot.frozen.Events() {
			n++
		}
		out = append(out, fmt.Sprintf("snapshot after batch %d", a.Snapshot.UpTo))
	}
	return out
}

// A batch with the largest event that a client can cause must fit the store.
func TestLargestEventsFit(t *testing.T) {
	s := &stepper{t: t, wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	s.run("begin")
	s.run("step open a")
	s.run("land 2")
	s.wall = s.wall.Add(time.Second)
	var all []locktable.Command
	for i := range 100 {
		a := locktable.Acquire{
			Ref: "a", Session: stepID("a"), Try: true, Lease: stepID(fmt.Sprint(i)), Label: strings.Repeat("l", bounds.LabelMax),
			Value: make([]byte, bounds.ValueMax-i*600), RequestKey: stepID(fmt.Sprint("key", i)), Salt: make([]byte, 16),
		}
		for j := range bounds.NamesMax {
			name := fmt.Sprintf("%d/%d/", i, j)
			a.Names = append(a.Names, name+strings.Repeat("n", bounds.NameMax-len(name)))
		}
		all = append(all, a)
	}
	s.c.Step(s.now, s.wall, nil, all, true)
	granted := 0
	for n := uint64(3); granted < len(all); n++ {
		for _, b := range s.c.Take().Appends {
			if len(b.Raw) > store.BatchMax {
				t.Fatalf("batch %d has %d bytes; the store takes %d", b.Number, len(b.Raw), store.BatchMax)
			}
			got, _, err := store.OpenBatch(b.Raw)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range got.Events {
				if e.Kind == recordpb.Kind_KIND_GRANTED {
					granted++
				}
			}
		}
		s.c.Landed(n)
	}
}
