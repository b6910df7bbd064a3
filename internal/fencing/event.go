package fencing

import "fmt"

// Kind says what an event of a trace is.
type Kind uint8

// The kinds of events.
const (
	Sends    Kind = iota + 1 // a process sends a request
	Admits                   // a request passes a check, and takes effect later
	Arrives                  // a request reaches the store and is answered
	Receives                 // a process has its answer
	Loses                    // a request is lost
	Waits                    // a process gives up waiting for an answer
	Crashes                  // a process crashes, and begins anew
	Notes                    // a process decides something
	Happens                  // something happens in the surroundings
)

// Event is one line of a trace.
type Event struct {
	Kind Kind
	Who  string // the process; empty for the surroundings
	Text string // what happens; of a request, what it is
	Says string // the answer to a request

	article string  // that goes before Text
	sent    message // which request, as plain returns it
}

// plain is a message without what changes on its way: a send and its arrival have the
// same.
func plain(m message) message {
	m.stage, m.until, m.waited = 0, 0, false
	return m
}

// answerText says what the store answers.
func answerText(op opcode, a answer) string {
	switch {
	case op == opVerify && a.code == done:
		return "yes"
	case op == opVerify && a.code == refused:
		return "no"
	case op == opSeeLease && a.o.tok == 0:
		return "nobody's"
	case op == opSeeLease:
		return letter(a.o.tok) + "'s"
	}
	switch a.code {
	case done:
		return "done"
	case refused:
		return "refused"
	case failed:
		return "412, the condition does not hold"
	case missing:
		return "404, it is not there"
	case replay:
		return "done before"
	}
	return "no answer"
}

// describe says what a request is, and the article that goes before it.
func (w *world) describe(m *message) (article, what string) {
	name := w.name[m.key]
	on := ""
	switch m.cond {
	case ifAbsent:
		on = " if absent"
	case ifMatch:
		on = " if unchanged"
		if w.tag != "" {
			on = fmt.Sprintf(" if its %s is still %d", w.tag, w.number(m.key, m.ver))
		}
	}
	switch m.op {
	case opGet:
		return "", "GET " + name
	case opPut:
		if m.marks {
			return "a ", "claim, PUT " + name + on
		}
		return "", "PUT " + name + on
	case opPair:
		return "a ", fmt.Sprintf("transaction that writes %s and %s", name, w.name[m.key+1])
	case opAppend:
		return "an ", "append to " + name
	case opDelete:
		return "", "DELETE " + name + on
	case opList:
		return "", "LIST"
	case opEffect:
		if w.keyed != nil {
			on = " under " + w.keyed(m)
		}
		return "a ", "request for " + name + on
	case opSeeLease:
		return "a ", "question whose lease id is in place"
	case opAcquireLease:
		return "an ", "attempt to take the store's lease"
	case opVerify:
		return "a ", "question to the lock service, whether its token is the newest"
	case opOpen:
		return "an ", "open, which raises the epoch"
	case opRevoke:
		return "a ", "revocation of the credentials of older tokens"
	case opDecide:
		return "a ", "decision for the guarded outbox"
	case opTake:
		return "a ", "question for the next decision"
	case opAdvance:
		return "a ", "record that the decision was sent"
	}
	return "", ""
}
