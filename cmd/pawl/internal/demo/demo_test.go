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
		return Outcome{Lost: lost, Refused: refused, First: first, Second: second}
	}
	good, kept := outcome(amountB, false, 1, 2), outcome(0, true, 3, 4)
	for _, tc := range []struct {
		name               string
		unguarded, guarded Outcome
		want               bool
	}{
		{"as told", good, kept, true},
		{"nothing is lost without the guard", outcome(0, false, 1, 2), kept, false},
		{"something else is lost", outcome(amountA, false, 1, 2), kept, false},
		{"refused without the guard", outcome(amountB, true, 1, 2), kept, false},
		{"not refused with it", good, outcome(0, false, 3, 4), false},
		{"lost with it", good, outcome(amountB, true, 3, 4), false},
		{"tokens that repeat", outcome(amountB, false, 1, 1), kept, false},
		{"tokens that fall", good, outcome(0, true, 4, 3), false},
		{"tokens that fall between the halves", outcome(amountB, false, 5, 6), kept, false},
		{"no tokens", outcome(amountB, false, 0, 2), kept, false},
	} {
		if got := judge(tc.unguarded, tc.guarded).OK; got != tc.want {
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
		tell.Half(true)
		tell.Say(Moment{At: time.Second, Who: "A", What: stepRefused, Token: 7, Text: "REFUSED by the ledger"})
		tell.Ledger(Outcome{Lost: 20, Entries: []entry{{Who: "opening", Balance: 100}, {Who: "A", Amount: 10, Balance: 110, Token: 7}}})
		tell.End(Verdict{OK: true})
		tell.End(Verdict{})
		if got := strings.Contains(b.String(), "\x1b["); got != colour {
			t.Errorf("colour %t:\n%s", colour, b.String())
		}
		for _, part := range []string{"0000000000000007", "LOST: 20. The balance should be 130.", "+10", "please report it"} {
			if !strings.Contains(b.String(), part) {
				t.Errorf("%q is missing in:\n%s", part, b.String())
			}
		}
	}
}
