package service

import (
	"slices"
	"sync"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// StreamAudit puts what a stream asks for and what comes of it together, for the audit
// log. Renewals and looking are not noted. A nil notes notes nothing.
type StreamAudit struct {
	log access.AuditLog

	mu   sync.Mutex
	base access.AuditRecord // what all have in common
	// idle: the identity may hold nothing.
	idle bool
	// open are the requests without an answer. A number may stand for several: a
	// client that says it twice must not choose what is written down of either.
	open map[uint64][]access.AuditRecord
}

// sameMax bounds the requests of one number that are remembered.
const sameMax = 4

// StreamAudit begins the records of a stream; nil where there is no audit log.
func (d *Service) StreamAudit(i *access.Identity, remote string) *StreamAudit {
	if d.audit == nil {
		return nil
	}
	return &StreamAudit{
		log: d.audit, base: access.AuditRecord{Identity: i.Name(), Remote: remote}, idle: !i.Anywhere(access.Hold), open: map[uint64][]access.AuditRecord{},
	}
}

// Session says whose stream it is.
func (n *StreamAudit) Session(handle string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.base.Handle = handle
}

// Record records how the stream began, or ended.
func (n *StreamAudit) Record(verb, outcome, detail string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	d := n.base
	n.mu.Unlock()
	d.Verb, d.Outcome, d.Detail, d.Idle = verb, outcome, detail, n.idle
	n.log.Record(d)
}

// Asked remembers an acquire of names, or a release of a token, until its answer.
func (n *StreamAudit) Asked(number uint64, verb string, names []string, token uint64) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.base
	d.Verb, d.Names, d.Token = verb, names, token
	if same := n.open[number]; len(same) < sameMax {
		n.open[number] = append(same, d)
	}
}

// Answered records what came of a request. A grant is recorded by what was granted,
// whatever was asked.
func (n *StreamAudit) Answered(number uint64, a locktable.Answer) {
	if n == nil || number == 0 {
		return
	}
	if t, traced := a.(cell.Traced); traced {
		a = t.Answer
	}
	var d access.AuditRecord
	switch a := a.(type) {
	case locktable.Granted:
		d, _ = n.close(number, "acquire")
		d.Verb, d.Token, d.Outcome, d.Names = "acquire", uint64(a.Token), "granted", nil
		for _, g := range a.Grants {
			d.Names = append(d.Names, g.Name)
		}
	case locktable.Done:
		if a.Of != locktable.AskedRelease {
			return
		}
		var asked bool
		if d, asked = n.close(number, "release"); !asked {
			return
		}
		d.Outcome = "done"
	case locktable.Refused:
		var asked bool
		if d, asked = n.close(number, ""); !asked {
			return
		}
		d.Outcome, d.Detail = string(a.Reason), a.Message
	default:
		return
	}
	n.log.Record(d)
}

// close forgets the last request of a number and of a verb, of any when it is
// empty, and returns it; false: there is none, and what all have in common is
// returned.
func (n *StreamAudit) close(number uint64, verb string) (access.AuditRecord, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	same := n.open[number]
	for i := len(same) - 1; i >= 0; i-- {
		if d := same[i]; verb == "" || d.Verb == verb {
			if same = slices.Delete(same, i, i+1); len(same) == 0 {
				delete(n.open, number)
			} else {
				n.open[number] = same
			}
			return d, true
		}
	}
	return n.base, false
}

// AcquireRefusal says why an identity may not acquire names on a stream; nil: it may.
func (d *Service) AcquireRefusal(i *access.Identity, names []string) *locktable.Refused {
	if err := bounds.TooManyNames(names); err != nil {
		return &locktable.Refused{Reason: locktable.Invalid, Message: err.Error()}
	}
	for _, name := range names {
		if !i.Allow(access.Hold, name) && bounds.ValidName(name) == nil {
			d.gate.Denied.Add(1)
			no := Denied(i, access.Hold, name)
			return &no
		}
	}
	if no := d.AuditRefusal(); no != nil {
		return &no.Refused
	}
	return nil
}

// Observable leaves of names those that an identity may observe on a stream; denied are
// the answers for the others, which are recorded.
func (d *Service) Observable(i *access.Identity, remote string, names []string) (kept []string, denied []locktable.Observed) {
	kept = names[:0]
	for _, name := range names {
		if i.Allow(access.Read, name) || bounds.ValidName(name) != nil {
			kept = append(kept, name)
			continue
		}
		no := Denied(i, access.Read, name)
		denied = append(denied, locktable.Observed{Name: name, Reason: no.Reason, Message: no.Message})
		d.Record(access.AuditRecord{
			Identity: i.Name(), Remote: remote, Verb: "observe", Names: []string{name},
			Outcome: string(no.Reason), Detail: no.Message,
		})
	}
	return kept, denied
}
