package main

import (
	"testing"
	"time"
)

// Each history has lease 5 of "a", requested when 4 had been acknowledged, and other
// observations. A checker that has caught no planted fault is no checker.
func TestLedgerFindsPlantedFaults(t *testing.T) {
	const s = time.Second
	held := func(tokens ...uint64) map[string][]uint64 { return map[string][]uint64{"a": tokens} }
	list := func(l *ledger, began, now moment, shown map[string][]uint64) {
		l.list(l.beginListing(began), shown, now)
	}
	type verdict struct{ lost, repeated, revived int }
	for _, test := range []struct {
		name string
		run  func(l *ledger)
		want verdict
	}{
		{"nothing more", func(*ledger) {}, verdict{}},
		{"shown", func(l *ledger) { list(l, 2*s, 3*s, held(5)) }, verdict{}},
		{"released", func(l *ledger) {
			l.release(5, 2*s)
			l.end(5, 3*s)
			list(l, 4*s, 5*s, held())
		}, verdict{}},
		{"handed over while the release was on its way", func(l *ledger) {
			l.release(5, 2*s)
			l.grant("a", 6, 5, 3*s, 20*s)
			l.end(5, 4*s)
		}, verdict{}},
		{"a release of unknown outcome, held on", func(l *ledger) {
			l.release(5, 2*s)
			list(l, 4*s, 5*s, held(5))
		}, verdict{}},
		{"a listing that began before the grant", func(l *ledger) { list(l, s/2, 3*s, held()) }, verdict{}},
		{"ended when it had expired", func(l *ledger) {
			list(l, 11*s, 12*s, held())
			l.withdraw(5, 13*s)
			l.grant("a", 6, 5, 14*s, 20*s)
		}, verdict{}},
		{"renewed, then gone when it had expired", func(l *ledger) {
			l.promise(5, 15*s)
			list(l, 16*s, 17*s, held())
		}, verdict{}},
		{"of another request, never acknowledged", func(l *ledger) {
			list(l, 11*s, 12*s, held(6))
			list(l, 13*s, 14*s, held())
		}, verdict{}},
		{"acknowledged after a listing had shown it", func(l *ledger) {
			l.release(5, 2*s)
			list(l, 2*s, 3*s, held(6))
			l.grant("a", 6, 5, 4*s, 20*s)
		}, verdict{}},

		{"lost: not shown", func(l *ledger) { list(l, 2*s, 3*s, held()) }, verdict{lost: 1}},
		{"lost: counted once", func(l *ledger) {
			list(l, 2*s, 3*s, held())
			list(l, 4*s, 5*s, held())
			l.withdraw(5, 6*s)
		}, verdict{lost: 1}},
		{"lost: renewed and not shown", func(l *ledger) {
			l.promise(5, 15*s)
			list(l, 11*s, 12*s, held())
		}, verdict{lost: 1}},
		{"lost: the promise comes to be known after the listing", func(l *ledger) {
			list(l, 11*s, 12*s, held())
			l.promise(5, 15*s)
		}, verdict{lost: 1}},
		{"lost: granted to another", func(l *ledger) { l.grant("a", 6, 5, 2*s, 20*s) }, verdict{lost: 1}},
		{"lost: shown under another token", func(l *ledger) { list(l, 2*s, 3*s, held(6)) }, verdict{lost: 1}},
		{"lost: its successor was acknowledged first", func(l *ledger) {
			l.grant("b", 7, 5, 2*s, 20*s)
			l.grant("b", 6, 5, 3*s, 20*s)
		}, verdict{lost: 1}},
		{"lost: the holder is told so too early", func(l *ledger) { l.withdraw(5, 2*s) }, verdict{lost: 1}},
		{"lost: the release finds none", func(l *ledger) {
			l.release(5, 2*s)
			l.withdraw(5, 3*s)
		}, verdict{lost: 1}},
		{"lost: gone by a renewal's answer", func(l *ledger) { l.end(5, 2*s) }, verdict{lost: 1}},

		{"repeated: granted twice", func(l *ledger) {
			l.release(5, 2*s)
			l.grant("b", 5, 4, 3*s, 20*s)
		}, verdict{repeated: 1}},
		{"repeated: not above an earlier one", func(l *ledger) { l.grant("b", 3, l.floor(), 3*s, 20*s) }, verdict{repeated: 1}},
		{"repeated: shown on another name", func(l *ledger) {
			list(l, 2*s, 3*s, map[string][]uint64{"a": {5}, "b": {5}})
		}, verdict{repeated: 1}},
		{"repeated: new in a listing and old", func(l *ledger) {
			list(l, 2*s, 3*s, held(5))
			list(l, 4*s, 5*s, map[string][]uint64{"a": {5}, "b": {3}})
		}, verdict{repeated: 1}},

		{"revived: released and shown", func(l *ledger) {
			l.release(5, 2*s)
			l.end(5, 3*s)
			list(l, 4*s, 5*s, held(5))
		}, verdict{revived: 1}},
		{"revived: expired and shown again", func(l *ledger) {
			list(l, 11*s, 12*s, held())
			list(l, 13*s, 14*s, held(5))
		}, verdict{revived: 1}},
		{"revived: overtaken and shown again", func(l *ledger) {
			l.release(5, 2*s)
			l.grant("a", 6, 5, 3*s, 20*s)
			l.release(6, 4*s)
			list(l, 4*s, 5*s, held(5))
		}, verdict{revived: 1}},
		{"revived: a refusal names it as the holder", func(l *ledger) {
			l.release(5, 2*s)
			l.end(5, 3*s)
			l.see(5, 4*s)
		}, verdict{revived: 1}},
		{"revived: its end comes to be known later", func(l *ledger) {
			l.release(5, 2*s)
			l.see(5, 4*s)
			l.end(5, 3*s)
		}, verdict{revived: 1}},
		{"revived: beside its successor", func(l *ledger) {
			l.release(5, 2*s)
			l.grant("a", 6, 5, 3*s, 20*s)
			list(l, 4*s, 5*s, held(5, 6))
		}, verdict{revived: 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newLedger()
			l.grant("z", 4, 0, s/2, 20*s)
			l.release(4, s/2)
			l.end(4, s/2)
			l.grant("a", 5, l.floor(), 1*s, 10*s)
			test.run(l)
			if got := (verdict{l.lost, l.repeated, l.revived}); got != test.want {
				t.Errorf("%+v, want %+v; %q", got, test.want, l.findings)
			}
			if found := l.lost + l.repeated + l.revived; found != len(l.findings) {
				t.Errorf("%d findings are described, want %d", len(l.findings), found)
			}
		})
	}
}

func TestLedgerCountsSurvivors(t *testing.T) {
	l := newLedger()
	for i, name := range []string{"a", "b", "c"} {
		l.grant(name, uint64(5+i), l.floor(), time.Second, 10*time.Second)
	}
	l.release(7, 2*time.Second)
	l.list(l.beginListing(3*time.Second), map[string][]uint64{"a": {5}, "b": {6}, "c": {7}}, 4*time.Second)
	if l.survived != 2 {
		t.Errorf("%d leases survived, want the 2 that nobody had begun to release", l.survived)
	}
}
