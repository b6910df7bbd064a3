package link

import (
	"slices"
	"sync"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// streamAudit puts what a stream asks for and what comes of it together, for the audit
// log. Renewals and looking are not noted. A nil notes notes nothing.
type streamAudit struct {
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

func newStreamAudit(w access.AuditLog, i *access.Identity, remote string) *streamAudit {
	if w == nil {
		return nil
	}
	return &streamAudit{
		log: w, base: access.AuditRecord{Identity: i.Name(), Remote: remote}, idle: !i.Anywhere(access.Hold), open: map[uint64][]access.AuditRecord{},
	}
}

// session says whose stream it is.
func (n *streamAudit) session(handle string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.base.Handle = handle
}

// greeted notes how the stream began, or ended.
func (n *streamAudit) greeted(verb string, outcome, detail string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	d := n.base
	n.mu.Unlock()
	d.Verb, d.Outcome, d.Detail, d.Idle = verb, outcome, detail, n.idle
	n.log.Record(d)
}

// asked remembers a request until its answer.
func (n *streamAudit) asked(r *linkpb.Request) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.base
	switch w := r.What.(type) {
	case *linkpb.Request_Acquire:
		d.Verb, d.Names = "acquire", w.Acquire.Names
	case *linkpb.Request_Release:
		d.Verb, d.Token = "release", w.Release.Token
	default:
		return
	}
	if same := n.open[r.Number]; len(same) < sameMax {
		n.open[r.Number] = append(same, d)
	}
}

// answered notes what came of a request. A grant is noted by what was granted,
// whatever was asked.
func (n *streamAudit) answered(number uint64, a locktable.Answer) {
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
func (n *streamAudit) close(number uint64, verb string) (access.AuditRecord, bool) {
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
