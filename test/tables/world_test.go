package tables

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// base is what the wall clock shows when a tenure opens, unless a script says
// otherwise: behind the counter, so that tokens are small numbers above it.
var base = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// fixture is a table, its log and its time.
type fixture struct {
	table  *locktable.Table
	limits bounds.Limits
	log    []*recordpb.Event
	now    locktable.Now
	// lag is how far the counted time stands behind the time that may be counted.
	lag time.Duration
	// known names the ids that were used.
	known map[locktable.ID]string
	epoch uint64
}

func newFixture(limits bounds.Limits) *fixture {
	return &fixture{
		table: locktable.New(limits), limits: limits, known: map[locktable.ID]string{},
		now: locktable.Now{Wall: base.Add(time.Second)},
	}
}

// id derives an id from a name, so that scripts can name it.
func (w *fixture) id(name string) locktable.ID {
	sum := sha256.Sum256([]byte(name))
	id := locktable.ID(sum[:16])
	w.known[id] = name
	return id
}

// open begins a tenure, the first of the cell when there was none.
func (w *fixture) open(wall time.Time, floor guard.Token) locktable.Decided {
	var d locktable.Decided
	if w.epoch == 0 {
		w.table.Found("test-0123456789abcdef", []byte("secret"), &d)
	}
	w.epoch++
	w.table.Open(w.epoch, wall, floor, &d)
	w.now.Low, w.now.High, w.lag = 0, 0, 0
	return w.took(d)
}

func (w *fixture) decide(c locktable.Command) locktable.Decided {
	var d locktable.Decided
	w.table.Decide(w.now, c, &d)
	return w.took(d)
}

// tick is one turn's care for time and the work list.
func (w *fixture) tick(complete bool, budget int) (d locktable.Decided, more bool) {
	expiring := w.table.Tick(w.now, complete, budget, &d)
	working := w.table.Work(w.now, budget, &d)
	return w.took(d), expiring || working
}

// took writes what was decided to the log, as bytes would be.
func (w *fixture) took(d locktable.Decided) locktable.Decided {
	for _, e := range d.Events {
		w.log = append(w.log, proto.Clone(e).(*recordpb.Event))
	}
	return d
}

func (w *fixture) advance(d time.Duration) {
	w.now.High += d
	w.now.Low = max(w.now.High-w.lag, w.now.Low)
	w.now.Wall = w.now.Wall.Add(d)
}

// rebuilt is the table that the log gives, or its snapshot of the present.
func (w *fixture) rebuilt(snapshot bool) (*locktable.Table, error) {
	t := locktable.New(w.limits)
	log := w.log
	if snapshot {
		log = slices.Collect(w.table.Freeze(w.now).Events())
	}
	for i, e := range log {
		if err := t.Apply(proto.Clone(e).(*recordpb.Event)); err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
	}
	t.FinishReplay()
	return t, nil
}

// differs returns how a rebuilt table differs from the live one; empty: in nothing that
// is decided. The time for which outcomes are kept is not decided: the live table may
// have forgotten some.
func (w *fixture) differs(other *locktable.Table) string {
	live, liveOutcomes := decided(w.table, w.now)
	rest, restOutcomes := decided(other, w.now)
	for i := range max(len(live), len(rest)) {
		a, b := at(live, i), at(rest, i)
		if a != b {
			return fmt.Sprintf("live:    %s\nrebuilt: %s", a, b)
		}
	}
	names := map[string]bool{}
	for e := range other.Freeze(w.now).Events() {
		for _, g := range e.Grants {
			names[g.Name] = true
		}
		if e.Name != "" {
			names[e.Name] = true
		}
	}
	if n := other.Counts().Names; n != len(names) {
		return fmt.Sprintf("%d names are remembered, and %d are held or closed", n, len(names))
	}
	for _, x := range liveOutcomes {
		if !slices.Contains(restOutcomes, x) {
			return "an outcome is missing: " + x
		}
	}
	return ""
}

func at(all []string, i int) string {
	if i < len(all) {
		return all[i]
	}
	return "nothing"
}

func decided(t *locktable.Table, now locktable.Now) (rest, outcomes []string) {
	for e := range t.Freeze(now).Events() {
		if e.Kind == recordpb.Kind_KIND_OUTCOME {
			e.LeftNano = 0
			outcomes = append(outcomes, prototext.Format(e))
			continue
		}
		rest = append(rest, prototext.Format(e))
	}
	return rest, outcomes
}

// takeOver goes on with a rebuilt table in a new tenure.
func (w *fixture) takeOver(snapshot bool, wall time.Time) (locktable.Decided, error) {
	t, err := w.rebuilt(snapshot)
	if err != nil {
		return locktable.Decided{}, err
	}
	if d := w.differs(t); d != "" {
		return locktable.Decided{}, fmt.Errorf("the rebuilt table is another one:\n%s", d)
	}
	if snapshot {
		w.log = slices.Collect(w.table.Freeze(w.now).Events())
	}
	w.table = t
	return w.open(wall, 0), nil
}

// token writes a token as its distance from the opening value of the first
// tenure.
func token(t guard.Token) string {
	if t == 0 {
		return "none"
	}
	return fmt.Sprintf("#%d", int64(t)-int64(locktable.CounterLimit(base)))
}

// grant writes what is not plain of one name of a lease.
func grant(t, fence guard.Token, slot uint32) string {
	s := ""
	if fence != t {
		s += "!" + token(fence)
	}
	if slot > 0 {
		s += fmt.Sprintf("[%d]", slot)
	}
	return s
}

func (w *fixture) name(b []byte) string {
	var id locktable.ID
	copy(id[:], b)
	if n, ok := w.known[id]; ok {
		return n
	}
	return fmt.Sprintf("%x", b)
}

func kind(k recordpb.Kind) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(k.String(), "KIND_")), "_", "-")
}

// event writes an event in one line.
func (w *fixture) event(e *recordpb.Event) string {
	b := &strings.Builder{}
	b.WriteString(kind(e.Kind))
	add := func(format string, args ...any) { fmt.Fprintf(b, " "+format, args...) }
	if len(e.Session) > 0 {
		add("%s", w.name(e.Session))
	}
	if e.Epoch > 0 {
		add("epoch=%d", e.Epoch)
	}
	if e.Token > 0 {
		add("%s", token(guard.Token(e.Token)))
	}
	if e.LastToken > 0 {
		add("last=%s", token(guard.Token(e.LastToken)))
	}
	if e.Name != "" {
		add("%s", e.Name)
	}
	for _, g := range e.Grants {
		add("%s%s", g.Name, grant(guard.Token(e.Token), guard.Token(g.Fence), g.Slot))
	}
	if e.Mode > recordpb.Mode_MODE_EXCLUSIVE {
		add("%s", strings.ToLower(strings.TrimPrefix(e.Mode.String(), "MODE_")))
	}
	if e.Slots > 0 {
		add("of=%d", e.Slots)
	}
	if e.LockDelayNano > 0 {
		add("delay=%v", time.Duration(e.LockDelayNano))
	}
	if e.Claims {
		add("claims")
	}
	if e.RideThroughNano > 0 {
		add("ride=%v", time.Duration(e.RideThroughNano))
	}
	if len(e.Value) > 0 {
		add("value=%s", e.Value)
	}
	if e.Request > 0 {
		add("request=%d", e.Request)
	}
	if e.Finished > 0 {
		add("finished=%d", e.Finished)
	}
	if len(e.Done) > 0 {
		add("done=%v", e.Done)
	}
	if e.TtlNano > 0 {
		add("ttl=%v", time.Duration(e.TtlNano))
	}
	if e.LeftNano != 0 {
		add("left=%v", time.Duration(e.LeftNano))
	}
	if e.Own {
		add("own")
	}
	if e.Forced {
		add("forced")
	}
	if e.Reason != "" {
		add("reason=%q", e.Reason)
	}
	return b.String()
}

// answer writes an answer in one line.
func (w *fixture) answer(a locktable.Answer) string {
	switch a := a.(type) {
	case locktable.Attached:
		s := fmt.Sprintf("attached ttl=%v", a.TTL)
		for _, n := range a.Lost {
			s += " lost=" + token(guard.Token(n))
		}
		if a.RolledBack {
			s += " rolled-back"
		}
		if a.NewRide || a.Rode > 0 {
			s += fmt.Sprintf(" rode=%v ride=%v", a.Rode, a.NewRide)
		}
		return s
	case locktable.Opened:
		return fmt.Sprintf("opened ttl=%v", a.TTL)
	case locktable.Renewed:
		return fmt.Sprintf("renewed %d ttl=%v", a.Number, a.TTL)
	case locktable.Granted:
		s := fmt.Sprintf("granted %s", token(a.Token))
		for _, g := range a.Grants {
			s += " " + g.Name + grant(a.Token, g.Fence, g.Slot)
		}
		s += fmt.Sprintf(" ttl=%v", a.TTL)
		if a.Waited > 0 {
			s += fmt.Sprintf(" waited=%v", a.Waited)
		}
		return s
	case locktable.Waiting:
		s := fmt.Sprintf("waiting %d/%d", a.Place.Epoch, a.Place.Sequence)
		if a.ClaimOnly > 0 {
			s += fmt.Sprintf(" claim-only=%v", a.ClaimOnly)
		}
		return s
	case locktable.Done:
		return "done"
	case locktable.Broken:
		s := fmt.Sprintf("broken ended=%v", a.Ended)
		if a.RidesOn > 0 {
			s += fmt.Sprintf(" rides-on=%v", a.RidesOn)
		}
		return s
	case locktable.Refused:
		s := "refused " + string(a.Reason)
		if a.Holder != nil {
			s += " by " + token(a.Holder.Token)
		}
		if strings.Contains(a.Message, "do not claim") {
			s += ": " + a.Message
		}
		return s
	case locktable.Notice:
		if a.Ended {
			return fmt.Sprintf("notice %s ended %q", token(a.Token), a.Reason)
		}
		return fmt.Sprintf("notice %s breaking %q", token(a.Token), a.Reason)
	case locktable.Closed:
		return fmt.Sprintf("closed %s: %s", a.Reason, strings.SplitN(a.Message, ";", 2)[0])
	case locktable.Page:
		var lines []string
		for _, l := range a.Locks {
			s := l.Name
			if l.Slots > 0 {
				s += fmt.Sprintf(" slots=%d", l.Slots)
			}
			if l.ClosedFor > 0 {
				s += fmt.Sprintf(" closed=%v", l.ClosedFor)
			}
			if l.ClaimOnlyFor > 0 {
				s += fmt.Sprintf(" claim-only=%v", l.ClaimOnlyFor)
			}
			if len(l.Value) > 0 {
				s += " value=" + string(l.Value)
			}
			for _, h := range l.Holders {
				s += fmt.Sprintf(" held=%s expires=%v", token(h.Token), h.ExpiresIn)
				if h.Grade != locktable.Advisory {
					s += " " + h.Grade.String()
				}
				if h.RideThrough > 0 {
					s += fmt.Sprintf(" ride=%v", h.RideThrough)
				}
				if h.Breaking {
					s += " breaking"
				}
			}
			if len(l.Waiters) > 0 {
				s += fmt.Sprintf(" waiters=%d", len(l.Waiters))
			}
			lines = append(lines, s)
		}
		if a.Next != "" {
			lines = append(lines, "next="+a.Next)
		}
		if len(lines) == 0 {
			return "nothing"
		}
		return strings.Join(lines, "\n   ")
	}
	if a, ok := a.(locktable.Observed); ok {
		return fmt.Sprintf("observed %s %s %s", a.Name, token(a.Token), a.Value)
	}
	return fmt.Sprintf("%#v", a)
}
