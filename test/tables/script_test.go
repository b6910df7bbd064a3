package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/testscript"
)

// script runs the commands of one file. A session on a stream is s1, s2, …, its
// stream s1/1, s1/2, …; a request without a stream is u1, u2, …; a session
// without one is h1, h2, ….
type script struct {
	*fixture
	generation map[string]uint64
	// next is the number that a client would give its next request.
	next map[string]uint64
}

func TestScripts(t *testing.T) {
	testscript.RunAll(t, "testdata", func(t *testing.T) func(string) []string {
		s := &script{generation: map[string]uint64{}, next: map[string]uint64{}}
		return func(line string) []string {
			a := argsOf(t, line)
			out := s.run(a)
			if a.command != "limits" {
				for _, snapshot := range []bool{false, true} {
					other, err := s.rebuilt(snapshot)
					if err != nil {
						a.t.Fatalf("%s: rebuild: %v", line, err)
					}
					if diff := s.differs(other); diff != "" {
						a.t.Fatalf("%s: rebuilt (snapshot: %v):\n%s", line, snapshot, diff)
					}
				}
			}
			if out == "" {
				return nil
			}
			return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		}
	})
}

// args are a line's command and what follows it: words in order, and key=value or
// key=(value,value).
type args struct {
	t             *testing.T
	line, command string
	words         []string
	values        map[string][]string
}

func argsOf(t *testing.T, line string) *args {
	f := strings.Fields(line)
	a := &args{t: t, line: line, command: f[0], values: map[string][]string{}}
	for _, x := range f[1:] {
		key, value, ok := strings.Cut(x, "=")
		switch {
		case !ok:
			a.words = append(a.words, x)
		case strings.HasPrefix(value, "("):
			a.values[key] = strings.Split(strings.Trim(value, "()"), ",")
		default:
			a.values[key] = []string{value}
		}
	}
	return a
}

func (a *args) word(i int) string {
	if i < len(a.words) {
		return a.words[i]
	}
	a.t.Fatalf("%s: %d words are needed", a.line, i+1)
	return ""
}

func (a *args) has(word string) bool { return slices.Contains(a.words, word) }

func (a *args) all(key string) []string { return a.values[key] }

func (a *args) value(key string) string {
	if v := a.all(key); len(v) > 0 {
		return v[0]
	}
	return ""
}

func (a *args) number(s string) uint64 {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		a.t.Fatalf("%s: %v", a.line, err)
	}
	return n
}

func (a *args) duration(s string, or time.Duration) time.Duration {
	if s == "" {
		return or
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		a.t.Fatalf("%s: %v", a.line, err)
	}
	return d
}

// token reads #n, the distance from the first opening value.
func (a *args) token(s string) guard.Token {
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(s, "#"), 10, 64)
	if err != nil {
		a.t.Fatalf("%s: %v", a.line, err)
	}
	return guard.Token(int64(locktable.CounterLimit(base)) + n)
}

func (a *args) mode() (locktable.Mode, uint32) {
	switch {
	case a.has("shared"):
		return locktable.Shared, 0
	case a.value("slots") != "":
		return locktable.Slots, uint32(a.number(a.value("slots")))
	}
	return locktable.Exclusive, 0
}

func (s *script) run(a *args) string {
	if a.command == "limits" {
		l := bounds.DefaultLimits
		for key, field := range map[string]*int{
			"leases-per-session": &l.LeasesPerSession, "waiters-per-name": &l.WaitersPerName,
			"sessions": &l.Sessions, "leases": &l.Leases, "waiters": &l.Waiters, "value-bytes": &l.ValueBytes,
			"observed": &l.Observed, "closed": &l.Closed,
		} {
			if v := a.value(key); v != "" {
				*field = int(a.number(v))
			}
		}
		s.fixture, s.generation = newFixture(l), map[string]uint64{}
		return ""
	}
	if s.fixture == nil {
		s.fixture = newFixture(bounds.DefaultLimits)
	}
	switch a.command {
	case "open":
		return s.show(s.open(base.Add(a.duration(a.value("wall"), 0)), a.token(a.value("floor"))))
	case "lose":
		// Decided, and not durable when its server ends: a take-over follows.
		n := int(a.number(a.word(0)))
		lost := s.log[len(s.log)-n:]
		s.log = s.log[:len(s.log)-n]
		t, err := s.rebuilt(false)
		if err != nil {
			a.t.Fatalf("%s: %v", a.line, err)
		}
		s.table = t
		var out strings.Builder
		for _, e := range lost {
			out.WriteString("lost " + s.event(e) + "\n")
		}
		return out.String()
	case "take-over":
		dec, err := s.takeOver(a.has("snapshot"), base.Add(a.duration(a.value("wall"), 0)))
		if err != nil {
			a.t.Fatalf("%s: %v", a.line, err)
		}
		return s.show(dec)
	case "advance":
		s.advance(a.duration(a.word(0), 0))
		return fmt.Sprintf("now %v\n", s.now.High)
	case "lag":
		s.lag = a.duration(a.word(0), 0)
		s.advance(0)
		return fmt.Sprintf("counted %v of %v\n", s.now.Low, s.now.High)
	case "wall":
		s.now.Wall = base.Add(a.duration(a.word(0), 0))
		return fmt.Sprintf("line %s\n", token(locktable.CounterLimit(s.now.Wall)))
	case "wall-at-counter":
		return s.wallAtCounter(a)
	case "tick":
		return s.ticks(a)
	case "snapshot":
		var b strings.Builder
		for e := range s.table.Freeze(s.now).Events() {
			b.WriteString(s.event(e) + "\n")
		}
		return b.String()
	case "counts":
		c := s.table.Counts()
		out := fmt.Sprintf("sessions=%d leases=%d waiters=%d counter=%s rolled-back=%v",
			c.Sessions, c.Leases, c.Waiters, token(c.Counter), c.RolledBack)
		if a.has("grades") {
			out += fmt.Sprintf(" advisory=%d delayed=%d claimed=%d riders=%d claim-only=%d",
				c.ByGrade[locktable.Advisory], c.ByGrade[locktable.Delayed], c.ByGrade[locktable.Claimed], c.Riders, c.ClaimOnly)
		}
		return out + "\n"
	}
	c := s.command(a)
	if c == nil {
		a.t.Fatalf("%s: unknown command", a.line)
	}
	return s.show(s.decide(c))
}

// wallAtCounter sets the clock so that its line is n tokens above the counter.
func (s *script) wallAtCounter(a *args) string {
	want := s.table.Counts().Counter + guard.Token(a.number(a.value("plus")))
	sec := int64(want >> 20)
	for ns := int64(0); ns < 1e9; ns += 100 {
		if w := time.Unix(sec, ns); locktable.CounterLimit(w) == want {
			s.now.Wall = w
			return fmt.Sprintf("line %s\n", token(want))
		}
	}
	a.t.Fatalf("%s: no such time", a.line)
	return ""
}

func (s *script) ticks(a *args) string {
	n := max(a.number(a.value("times")), 1)
	budget := int(max(a.number(a.value("budget")), 0))
	if budget == 0 {
		budget = 1000
	}
	var out strings.Builder
	for range n {
		s.advance(a.duration(a.value("every"), 0))
		d, more := s.tick(!a.has("incomplete"), budget)
		out.WriteString(s.show(d))
		if more {
			out.WriteString("more\n")
		}
	}
	return out.String()
}

func (s *script) command(a *args) locktable.Command {
	switch a.command {
	case "attach":
		return s.attach(a)
	case "detach":
		x := a.word(0)
		g := s.gen(a, x)
		return locktable.Detach{Ref: ref(x, g), Session: s.id(x), Generation: g}
	case "heard":
		x := a.word(0)
		g := s.gen(a, x)
		return locktable.Heard{
			Ref: ref(x, g), Session: s.id(x), Generation: g,
			Renewal: a.number(a.value("renewal")), Finished: a.number(a.value("finished")), TTL: a.duration(a.value("ttl"), 0),
		}
	case "acquire":
		x := a.word(0)
		g := s.gen(a, x)
		c := locktable.Acquire{
			Ref: ref(x, g), Session: s.id(x), Generation: g, Number: a.number(a.word(1)),
			Names: append([]string{a.word(2)}, a.all("names")...), Try: a.has("try"), Label: a.value("label"),
			LockDelay: a.duration(a.value("delay"), 0), Value: []byte(a.value("value")),
			Claims: a.has("claims"), RideThrough: a.duration(a.value("ride"), 0),
		}
		s.next[x] = max(s.next[x], c.Number+1)
		c.Mode, c.Slots = a.mode()
		if p := strings.Split(a.value("ticket"), "/"); len(p) == 2 {
			c.Ticket = locktable.Place{Epoch: a.number(p[0]), Sequence: a.number(p[1])}
		}
		c.Replaces = a.number(a.value("replaces"))
		return c
	case "once":
		return s.once(a)
	case "session":
		x := a.word(0)
		return locktable.OpenSession{Ref: x, New: s.id(x), TTL: a.duration(a.value("ttl"), 10*time.Second)}
	case "renew":
		ttl := a.duration(a.value("ttl"), 0)
		if u := a.value("lease"); u != "" {
			return locktable.Renew{Ref: u + "/renew", Lease: s.id(u + ".lease"), TTL: ttl}
		}
		return locktable.Renew{Ref: a.word(0) + "/renew", Session: s.id(a.word(0)), TTL: ttl}
	case "close":
		return locktable.Close{Ref: a.word(0) + "/close", Session: s.id(a.word(0))}
	case "hangup":
		return locktable.DetachWaiter{Waiter: a.word(0)}
	case "cancel":
		if len(a.words) == 1 {
			return locktable.Cancel{Waiter: a.word(0)}
		}
		x := a.word(0)
		return locktable.Cancel{Session: s.id(x), Generation: s.gen(a, x), Number: a.number(a.word(1))}
	case "release":
		x := a.word(0)
		if len(a.words) == 1 {
			return locktable.Release{Ref: x + "/release", Lease: s.id(x + ".lease")}
		}
		g := s.gen(a, x)
		return locktable.Release{Ref: ref(x, g), Session: s.id(x), Generation: g, Number: a.number(a.word(1)), Token: a.token(a.word(2)), Lost: a.has("lost")}
	case "check":
		x := a.word(0)
		g := s.gen(a, x)
		return locktable.Check{Ref: ref(x, g), Session: s.id(x), Generation: g, Number: a.number(a.word(1)), Token: a.token(a.word(2))}
	case "break":
		return locktable.Break{Ref: "admin", Name: a.word(0), Token: a.token(a.word(1)), Reason: a.value("reason"), Now: a.has("now")}
	case "observe":
		x := a.word(0)
		return locktable.Observe{Ref: ref(x, s.gen(a, x)), Session: s.id(x), Generation: s.gen(a, x), Name: a.word(1)}
	case "unobserve":
		x := a.word(0)
		return locktable.Unobserve{Session: s.id(x), Generation: s.gen(a, x), Name: a.word(1)}
	case "list":
		return locktable.List{
			Ref: "reader", Name: a.value("name"), Prefix: a.value("prefix"), After: a.value("after"),
			Limit: int(a.number(a.value("limit"))),
		}
	}
	return nil
}

func ref(session string, generation uint64) locktable.Ref {
	return fmt.Sprintf("%s/%d", session, generation)
}

// gen is the generation of the session's last stream, or the one that is given.
func (s *script) gen(a *args, session string) uint64 {
	if v := a.value("gen"); v != "" {
		return a.number(v)
	}
	return s.generation[session]
}

func (s *script) attach(a *args) locktable.Command {
	x := a.word(0)
	c := locktable.Attach{TTL: a.duration(a.value("ttl"), 0), Cell: s.table.Cell(), Highest: a.token(a.value("told"))}
	if v := a.value("cell"); v != "" {
		c.Cell = v
	}
	if s.generation[x] == 0 && !a.has("again") {
		c.New, c.TTL = s.id(x), cmp.Or(c.TTL, 10*time.Second)
	} else {
		c.Session = s.id(x)
	}
	if v := a.value("gen"); v != "" {
		c.Generation = a.number(v)
	} else {
		c.Generation = s.generation[x] + 1
	}
	c.Riding = a.duration(a.value("riding"), 0)
	if c.Next = s.next[x]; a.value("next") != "" {
		c.Next = a.number(a.value("next"))
	}
	if c.Generation > s.generation[x] {
		s.generation[x] = c.Generation
	}
	c.Ref = ref(x, c.Generation)
	if v := a.value("ref"); v != "" {
		c.Ref = v
	}
	for _, v := range a.all("held") {
		c.Held = append(c.Held, uint64(a.token(v)))
	}
	for _, v := range a.all("wanted") {
		c.Wanted = append(c.Wanted, a.number(v))
	}
	return c
}

func (s *script) once(a *args) locktable.Command {
	u := a.word(0)
	c := locktable.Acquire{
		Ref: u, Names: append([]string{a.word(1)}, a.all("names")...), Try: a.has("try"), Lease: s.id(u + ".lease"),
		LockDelay: a.duration(a.value("delay"), 0), Claims: a.has("claims"), RideThrough: a.duration(a.value("ride"), 0),
	}
	c.Mode, c.Slots = a.mode()
	if v := a.value("id"); v != "" {
		c.RequestKey, c.Salt = s.id("request "+v), []byte(u)
	}
	if v := a.value("session"); v != "" {
		c.Session = s.id(v)
		return c
	}
	c.Own, c.TTL = s.id(u+".own"), a.duration(a.value("ttl"), 10*time.Second)
	return c
}

// show writes what was decided: events first, then answers.
func (s *script) show(d locktable.Decided) string {
	var b strings.Builder
	for _, e := range d.Events {
		b.WriteString("log " + s.event(e) + "\n")
	}
	for _, r := range d.Replies {
		to := fmt.Sprint(r.To)
		if r.Number > 0 {
			to += fmt.Sprintf(" #%d", r.Number)
		}
		b.WriteString("→ " + to + ": " + s.answer(r.Answer) + "\n")
	}
	return b.String()
}
