package demo

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawlproject/pawl/guard"
)

// Moment is something that happened.
type Moment struct {
	At    time.Duration
	Who   string // server, A or B
	What  string
	Token guard.Token // 0: none is concerned
	Text  string
}

// Setting is where the story takes place.
type Setting struct {
	TTL time.Duration
	// Ledger is the kind of database, Guard what guards it, and Where names it
	// when it has a name.
	Ledger, Guard, Where string
	// Late is what to say of the late write that nobody refuses, behind a semicolon;
	// empty: nothing.
	Late string
}

// Act is a part of the story.
type Act uint8

// The acts in their order.
const (
	// Unguarded: nobody checks the token.
	Unguarded Act = iota + 1
	// Guarded: the ledger does.
	Guarded
	// Outage: the ledger does, and the server is gone for a while.
	Outage
)

func (a Act) String() string {
	switch a {
	case Unguarded:
		return "unguarded"
	case Guarded:
		return "guarded"
	case Outage:
		return "outage"
	}
	return "start" // before the first one
}

// Reporter tells the story.
type Reporter interface {
	Begin(s Setting)
	Act(a Act)
	Say(m Moment)
	Ledger(a account)
	End(v Verdict)
}

// Text tells it to people.
func Text(w io.Writer, colour bool) Reporter { return &text{w: w, colour: colour} }

type text struct {
	w      io.Writer
	colour bool
	guard  string
}

const (
	bold   = "1"
	dim    = "2"
	red    = "1;31"
	green  = "1;32"
	yellow = "33"
	blue   = "36"
	violet = "35"
)

func (t *text) paint(code, s string) string {
	if !t.colour || code == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (t *text) print(format string, a ...any) { fmt.Fprintf(t.w, format+"\n", a...) }

// Begin implements Reporter.
func (t *text) Begin(s Setting) {
	t.guard = s.Guard
	where := s.Ledger
	if s.Where != "" {
		where += " (" + s.Where + ")"
	}
	t.print("%s", t.paint(bold, "The zombie: a holder that comes back from the dead"))
	t.print(`
A server, two workers, a ledger in %s; all of them real.
Each worker takes the lease, reads the balance, adds to it, writes it back.
A lease has a TTL of %v here. Every lease has a fencing token, a number that only
goes up: the later the lease, the higher its token.
`, where, s.TTL)
}

// Act implements Reporter.
func (t *text) Act(a Act) {
	title := map[Act]string{
		Unguarded: "1. Nobody checks the token",
		Guarded:   "2. The ledger checks the token (" + t.guard + ")",
		Outage:    "3. The service is gone, and the guarded worker works on",
	}[a]
	t.print("\n%s\n", t.paint(bold, title))
}

// Say implements Reporter.
func (t *text) Say(m Moment) {
	who := map[string]string{"A": violet, "B": blue, "server": dim}[m.Who]
	line := m.Text
	switch m.What {
	case "stopped", "continued", "killed", stepRides:
		line = t.paint(yellow, line)
	case stepRefused:
		line = strings.Replace(line, "REFUSED", t.paint(green, "REFUSED"), 1)
	}
	token := strings.Repeat(" ", 16)
	if m.Token != 0 {
		token = t.paint(who, m.Token.Fixed())
	}
	t.print("%s  %s  %s  %s", t.paint(dim, fmt.Sprintf("%6.2fs", m.At.Seconds())), t.paint(who, fmt.Sprintf("%-6s", m.Who)), token, line)
}

// Ledger implements Reporter.
func (t *text) Ledger(a account) {
	t.print("\n         %-8s %7s %8s   %s", "ledger", "added", "balance", "token")
	for i, e := range a.Entries {
		if i == 0 {
			t.print("         %-8s %7s %8d", e.Who, "", e.Balance)
			continue
		}
		t.print("         %-8s %+7d %8d   %s", e.Who, e.Amount, e.Balance, e.Token.Fixed())
	}
	if a.Lost != 0 {
		t.print("         %s", t.paint(red, fmt.Sprintf("LOST: %d. The balance should be %d.", a.Lost, a.Entries[len(a.Entries)-1].Balance+a.Lost)))
		return
	}
	t.print("         %s", t.paint(green, "Nothing is lost."))
}

// End implements Reporter.
func (t *text) End(v Verdict) {
	if !v.OK {
		t.print("\n%s", t.paint(red, "This is not how it must come out: please report it, with what stands above."))
		return
	}
	t.print(`
%s
No lease can prevent the late write: between looking at the lease and writing
there is always a moment in which the holder may be stopped. The one who can is
the one who is written to: it remembers the highest token and refuses a lower.

So a worker that writes only there can go on while the service is gone. What goes
through no guard, such as a mail or a payment, may then happen twice: see
docs/ride-through.md.`, t.paint(bold, "What you saw"))
}

// JSON tells it to machines, a line for each moment.
func JSON(w io.Writer) Reporter { return &jsonLines{enc: json.NewEncoder(w)} }

type jsonLines struct {
	enc *json.Encoder
	act Act
}

// An error means that nobody reads; the demo's outcome is its exit code.
func (j *jsonLines) print(v any) { _ = j.enc.Encode(v) }

// Begin implements Reporter.
func (j *jsonLines) Begin(s Setting) {
	j.print(struct {
		Act    string `json:"act"`
		What   string `json:"what"`
		TTL    string `json:"ttl"`
		Ledger string `json:"ledger"`
		Guard  string `json:"guard"`
		Where  string `json:"where,omitempty"`
	}{j.act.String(), "begin", s.TTL.String(), s.Ledger, s.Guard, s.Where})
}

// Act implements Reporter.
func (j *jsonLines) Act(a Act) { j.act = a }

// Say implements Reporter.
func (j *jsonLines) Say(m Moment) {
	j.print(struct {
		Act   string      `json:"act"`
		At    string      `json:"at"`
		Who   string      `json:"who"`
		What  string      `json:"what"`
		Token guard.Token `json:"fencing_token,omitzero"`
		Text  string      `json:"text"`
	}{j.act.String(), m.At.Round(time.Millisecond).String(), m.Who, m.What, m.Token, m.Text})
}

// Ledger implements Reporter: what it would say is in the verdict.
func (j *jsonLines) Ledger(account) {}

// End implements Reporter.
func (j *jsonLines) End(v Verdict) {
	j.print(struct {
		What string `json:"what"`
		Verdict
	}{"verdict", v})
}
