package service

import (
	"slices"
	"testing"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
)

// recorded is an audit log.
type recorded []access.AuditRecord

func (r *recorded) Record(d access.AuditRecord) { *r = append(*r, d) }

func (*recorded) Writable() bool { return true }

// An answer is recorded with the request of its kind, and that request is then done
// with, although a client may give several requests one number.
func TestAnswerIsAuditedWithItsRequest(t *testing.T) {
	var log recorded
	s := New(nil, access.NewGate(nil), &log)
	n := s.StreamAudit(access.NewIdentity("a", access.Limits{}), "")
	n.Asked(1, "acquire", []string{"x"}, 0)
	n.Asked(1, "release", nil, 7)
	n.Answered(1, locktable.Granted{Token: 8})
	n.Answered(1, locktable.Done{Of: locktable.AskedRelease})
	if len(log) != 2 || log[1].Verb != "release" || log[1].Outcome != "done" || log[1].Token != 7 {
		t.Errorf("recorded: %+v", log)
	}
	n.Answered(1, locktable.Refused{Reason: locktable.Held})
	if len(n.open) != 0 || len(log) != 2 {
		t.Errorf("%v are left without an answer; recorded: %+v", n.open, log)
	}
	for range 3 * sameMax {
		n.Asked(1, "acquire", []string{"x"}, 0)
	}
	if got := len(n.open[1]); got != sameMax {
		t.Errorf("%d requests of one number are remembered, want %d", got, sameMax)
	}
}

// An acquire of more names than a lease may have does not stand in line with them.
func TestTooManyNamesAreRefusedAtOnce(t *testing.T) {
	s := New(nil, access.NewGate(nil), nil)
	anyone := access.NewIdentity("a", access.Limits{}, access.Grant{Rights: []access.Right{access.Hold}})
	if no := s.AcquireRefusal(anyone, slices.Repeat([]string{"a/1"}, 2*bounds.NamesMax)); no != nil {
		t.Errorf("as many as may be listed: %v", no)
	}
	if no := s.AcquireRefusal(anyone, make([]string, 100_000)); no == nil || no.Reason != locktable.Invalid {
		t.Errorf("100,000 names: %v", no)
	}
}
