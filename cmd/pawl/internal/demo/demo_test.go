package demo

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
)

// A checker that lets a wrong outcome pass would make the demo worthless.
func TestJudge(t *testing.T) {
	outcome := func(lost int64, refused bool, first, second guard.Token) Outcome {
		return Outcome{account: account{Lost: lost}, Refused: refused, First: first, Second: second}
	}
	good, kept := outcome(amountB, false, 1, 2), outcome(0, true, 3, 4)
	ridden := func(spoil func(*Ridden)) Ridden {
		entries := []entry{{"opening", 0, 100, 0}, {"A", 10, 110, 6}, {"A", 10, 120, 6}, {"A", 10, 130, 6}}
		r := Ridden{account: account{0, entries}, Token: 6, Rode: true, Alone: true, Resumed: true}
		spoil(&r)
		return r
	}
	rode := ridden(func(*Ridden) {})
	for _, tc := range []struct {
		name               string
		unguarded, guarded Outcome
		outage             Ridden
		want               bool
	}{
		{"as told", good, kept, rode, true},
		{"nothing is lost without the guard", outcome(0, false, 1, 2), kept, rode, false},
		{"something else is lost", outcome(amountA, false, 1, 2), kept, rode, false},
		{"refused without the guard", outcome(amountB, true, 1, 2), kept, rode, false},
		{"not refused with it", good, outcome(0, false, 3, 4), rode, false},
		{"lost with it", good, outcome(amountB, true, 3, 4), rode, false},
		{"tokens that repeat", outcome(amountB, false, 1, 1), kept, rode, false},
		{"tokens that fall", good, outcome(0, true, 4, 3), rode, false},
		{"tokens that fall between the acts", outcome(amountB, false, 5, 6), kept, rode, false},
		{"no tokens", outcome(amountB, false, 0, 2), kept, rode, false},
		{"the lease did not ride", good, kept, ridden(func(r *Ridden) { r.Rode = false }), false},
		{"a server was there when it wrote", good, kept, ridden(func(r *Ridden) { r.Alone = false }), false},
		{"the lease did not go on", good, kept, ridden(func(r *Ridden) { r.Resumed = false }), false},
		{"an entry with another token", good, kept, ridden(func(r *Ridden) { r.Entries[3].Token = 7 }), false},
		{"another token than the lease's", good, kept, ridden(func(r *Ridden) { r.Token = 7 }), false},
		{"an entry is missing", good, kept, ridden(func(r *Ridden) { r.Entries = r.Entries[:3] }), false},
		{"an entry too many", good, kept, ridden(func(r *Ridden) { r.Entries = append(r.Entries, r.Entries[3]) }), false},
		{"an update is lost in the outage", good, kept, ridden(func(r *Ridden) { r.Lost, r.Entries[3].Balance = 10, 120 }), false},
		{"lost, and the entries do not show it", good, kept, ridden(func(r *Ridden) { r.Lost = 10 }), false},
		{"no ledger", good, kept, ridden(func(r *Ridden) { r.Entries = nil }), false},
		{"a token of the outage's that is not the highest", good, outcome(0, true, 5, 6), rode, false},
		{"no outage", good, kept, Ridden{}, false},
	} {
		if got := judge(tc.unguarded, tc.guarded, tc.outage).OK; got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

func TestLedgerShowsALostUpdate(t *testing.T) {
	// The folder's name has what a data source name would take for its own.
	book, err := openSQLite(filepath.Join(t.TempDir(), "a b?c=d#e%.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer book.close()
	if err := book.create(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		e    entry
		lost int64
	}{
		{entry{"A", 10, 110, 1}, 0},
		{entry{"B", 20, 130, 2}, 0},
		{entry{"A", 10, 120, 1}, 20},
	} {
		if err := book.add(t.Context(), step.e); err != nil {
			t.Fatal(err)
		}
		all, err := book.entries(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := lostIn(all); got != step.lost {
			t.Errorf("after %+v %d is lost, expected %d", step.e, got, step.lost)
		}
		if n, err := book.balance(t.Context()); err != nil || n != step.e.Balance {
			t.Errorf("the balance is %d (%v)", n, err)
		}
	}
}

func TestTextIsColoredOnlyOnRequest(t *testing.T) {
	for _, colour := range []bool{false, true} {
		var b bytes.Buffer
		tell := Text(&b, colour)
		tell.Begin(Setting{TTL: 2 * time.Second, Ledger: "SQLite", Guard: "sqlguard"})
		for _, a := range []Act{Unguarded, Guarded, Outage} {
			tell.Act(a)
		}
		tell.Say(Moment{At: time.Second, Who: "A", What: stepRefused, Token: 7, Text: "REFUSED by the ledger"})
		tell.Ledger(account{20, []entry{{Who: "opening", Balance: 100}, {Who: "A", Amount: 10, Balance: 110, Token: 7}}})
		tell.End(Verdict{OK: true})
		tell.End(Verdict{})
		if got := strings.Contains(b.String(), "\x1b["); got != colour {
			t.Errorf("colour %t:\n%s", colour, b.String())
		}
		for _, part := range []string{"0000000000000007", "LOST: 20. The balance should be 130.", "+10", "please report it", "1. Nobody", "(sqlguard)", "3. The service is gone", "docs/ride-through.md"} {
			if !strings.Contains(b.String(), part) {
				t.Errorf("%q is missing in:\n%s", part, b.String())
			}
		}
	}
}

func TestJSONNamesTheAct(t *testing.T) {
	var b bytes.Buffer
	tell := JSON(&b)
	tell.Begin(Setting{})
	for _, a := range []Act{Unguarded, Guarded, Outage} {
		tell.Act(a)
		tell.Say(Moment{Who: "A", What: stepRead, Token: 7, Text: "reads"})
		tell.Ledger(account{})
	}
	o := Outcome{First: 1, Second: 2}
	tell.End(judge(o, o, Ridden{Token: 7, Rode: true}))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	parts := []string{
		`"act":"start"`, `"act":"unguarded"`, `"act":"guarded"`, `"act":"outage"`,
		`"outage":{"lost":"0","ledger":null,"token_a":"7","rode":true,"wrote_while_down":false,"resumed":false}`,
	}
	if len(lines) != len(parts) {
		t.Fatalf("it is\n%s", b.String())
	}
	for i, part := range parts {
		if !strings.Contains(lines[i], part) {
			t.Errorf("%s is missing in %s", part, lines[i])
		}
	}
}
