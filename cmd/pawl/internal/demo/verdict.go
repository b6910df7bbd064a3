package demo

import (
	"slices"

	"github.com/pawlproject/pawl/guard"
)

// Outcome is what one of the first two acts came to.
type Outcome struct {
	account
	// Refused: the late write was.
	Refused bool `json:"late_write_refused"`
	// First and Second are the tokens of A's and of B's lease.
	First  guard.Token `json:"token_a"`
	Second guard.Token `json:"token_b"`
}

// Ridden is what the third act came to.
type Ridden struct {
	account
	// Token is that of A's lease.
	Token guard.Token `json:"token_a"`
	// Rode: A's lease had passed its deadline and rode.
	Rode bool `json:"rode"`
	// Alone: A's second write was accepted while no server listened.
	Alone bool `json:"wrote_while_down"`
	// Resumed: the server that came back had the lease under its token.
	Resumed bool `json:"resumed"`
}

// Verdict is what the demo came to.
type Verdict struct {
	OK        bool    `json:"ok"`
	Unguarded Outcome `json:"unguarded"`
	Guarded   Outcome `json:"guarded"`
	Outage    Ridden  `json:"outage"`
}

// judge says whether all acts came out as they must.
func judge(unguarded, guarded Outcome, outage Ridden) Verdict {
	rose := func(o Outcome) bool { return 0 < o.First && o.First < o.Second }
	return Verdict{
		OK: unguarded.Lost == amountB && !unguarded.Refused && rose(unguarded) &&
			guarded.Lost == 0 && guarded.Refused && rose(guarded) && guarded.First > unguarded.Second &&
			outage.asTold() && outage.Token > guarded.Second,
		Unguarded: unguarded, Guarded: guarded, Outage: outage,
	}
}

// asTold reports whether the lease rode, and every addition was made once, in order and
// under one token.
func (r Ridden) asTold() bool {
	want := []entry{{Who: "opening", Balance: openingBalance}}
	for n := range int64(3) { // before the outage, in it and after it
		want = append(want, entry{Who: "A", Amount: amountA, Balance: openingBalance + (n+1)*amountA, Token: r.Token})
	}
	return r.Lost == 0 && r.Rode && r.Alone && r.Resumed && slices.Equal(r.Entries, want)
}
