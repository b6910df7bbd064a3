package fencing

// step is one atomic step of a program. Receiving an answer, working on it and sending
// the next request count as one: a client's own work is invisible to all others, so that
// a pause in the middle changes nothing that a pause before it would not.
type step struct {
	when func(t *turn) bool // nil: at any time
	send func(t *turn) message
	got  func(t *turn) int // what the answer leads to; nil: goOn
	do   func(t *turn) int // a step without a request
	raw  bool              // got also takes noAnswer; otherwise the request is sent again
}

// What a step leads to, beside the number of a step.
const (
	goOn = -1
	stop = -2
)

// turn is a process that takes a step.
type turn struct {
	w *world
	s *state
	p *process
	i int
}

// tok is the token of a client; 0 for what works beside them.
func (t *turn) tok() uint8 {
	if t.i < clients {
		return uint8(t.i + 1)
	}
	return 0
}

// bit is the operation of a client.
func (t *turn) bit() uint8 { return 1 << t.i }

// nonce names an attempt: a client and which run of it.
func (t *turn) nonce() uint8 { return t.tok()<<2 | t.p.runs }

// ack records that the client takes its work for done.
func (t *turn) ack() int {
	t.s.mon.acked |= t.bit()
	if t.s.mon.missed&t.bit() != 0 {
		t.s.blame(dishonestAck, t.tok(), 0)
	}
	t.note("takes its work for done")
	return stop
}

// note adds a line to a trace.
func (t *turn) note(text string) {
	if t.w.tellTo != nil {
		t.w.tell(Event{Kind: Notes, Who: t.w.who(t.i), Text: text})
	}
}

// verdict is what a check in front of the store says of a request.
type verdict uint8

const (
	passes  verdict = iota
	denied          // refused, and answered
	blocked         // not yet
	taken           // admitted; it takes effect later
)

// env is an event of the surroundings.
type env struct {
	text string // what happens, or the beginning of what says tells
	can  func(s *state) bool
	do   func(s *state)
	says func(s *state) string // what has changed by it; nil: nothing more
}

// budget says how much may go wrong in one run: of each kind, and in all.
type budget struct{ crashes, repeats, losses, faults uint8 }

// world is a protocol between clients and a store, with its surroundings.
type world struct {
	name     [objects]string
	begin    state
	prog     [procs][]step
	rules    rules
	budget   budget
	versions bool // the store's versions are asked for
	hashed   bool // a version is a hash of the body, as an S3 ETag; otherwise unique

	admit    func(s *state, m *message) verdict
	special  func(s *state, m *message) (answer, bool) // false: not yet
	mayStart func(s *state, i int) bool
	maySend  func(s *state, i int) bool // the client's own deadline
	pauses   bool                       // a pause is possible between that check and the send
	env      []env
	check    func(s *state)                // blames, in every state
	rest     func(s *state) (fault, uint8) // at rest
	finish   bool                          // who began also finishes: crashed clients come back

	heldReads  bool // a read reaches the store only while the reader is the newest
	legRepeats bool // what was admitted may be repeated on its way to the store
	giveUps    bool // the one that checks may stop waiting for what it admitted
	takesOver  bool // the third holder takes over, and does nothing else
	relays     bool // what works beside the clients meets faults, too
	dedupe     bool // an outside receiver knows an operation again

	// What is only told, where a trace is.
	tellTo func(Event)
	tag    string                                      // what a version is called; "": versions are not told
	tags   [objects][]tag                              // versions in the order of the trace
	says   func(s *state, m *message, a answer) string // what matters in an answer; "": nothing more
	keyed  func(m *message) string                     // which idempotency key a request carries
	passed func(s *state, m *message) string           // why a request was admitted
}

func (w *world) tell(e Event) {
	if w.tellTo != nil {
		w.tellTo(e)
	}
}

// tellOf tells what happens to a request.
func (w *world) tellOf(kind Kind, m message, says string) {
	if w.tellTo == nil {
		return
	}
	article, text := w.describe(&m)
	w.tell(Event{Kind: kind, Who: w.who(int(m.from)), Text: text, Says: says, article: article, sent: plain(m)})
}

// copied adds to an answer that the request will come again.
func copied(says string, repeats bool) string {
	if repeats {
		return says + "; a copy of the request is still on its way"
	}
	return says
}

func (w *world) who(i int) string {
	switch {
	case i < clients:
		return string(rune('A' + i))
	case i == clients && w.prog[i+1] == nil:
		return "collector"
	case i == clients:
		return "relay 1"
	default:
		return "relay 2"
	}
}

// atRest reports whether nothing is on its way and nobody has anything to do.
func (w *world) atRest(s *state) bool {
	if s.n > 0 {
		return false
	}
	for i := range s.proc {
		p := &s.proc[i]
		switch {
		case w.prog[i] == nil || p.phase == finished:
		case p.phase != idle:
			return false
		case i < clients && p.pc == 0 && !w.finish:
		case i >= clients && w.waitsFor(s, i):
		default:
			return false
		}
	}
	return true
}

func (w *world) waitsFor(s *state, i int) bool {
	st := w.prog[i][s.proc[i].pc]
	return st.when != nil && !st.when(&turn{w, s, &s.proc[i], i})
}

// run has a process go on until it waits for an answer, an event, or has finished.
func (w *world) run(s *state, i int) {
	p := &s.proc[i]
	t := &turn{w, s, p, i}
	for {
		if int(p.pc) >= len(w.prog[i]) {
			p.phase = finished
			return
		}
		st := &w.prog[i][p.pc]
		if st.when != nil && !st.when(t) {
			p.phase = idle
			return
		}
		if st.do != nil {
			if !w.lead(p, st.do(t)) {
				return
			}
			continue
		}
		if w.maySend != nil && i < clients && p.phase != checked {
			if !w.maySend(s, i) {
				t.note("sees that its lease has ended, and stops")
				p.phase = finished
				return
			}
			if w.pauses {
				t.note("checks its deadline: not over yet")
				p.phase = checked
				return
			}
		}
		m := st.send(t)
		m.from, m.tok, m.waited = uint8(i), t.tok(), true
		w.tellOf(Sends, m, "")
		s.post(m)
		p.phase = waiting
		return
	}
}

// lead sets what a process does next; false: it has finished.
func (w *world) lead(p *process, next int) bool {
	p.tried, p.ans = false, answer{}
	switch next {
	case stop:
		// Locals make no difference any more.
		p.phase, p.reg, p.pc = finished, [registers]uint8{}, 0
		return false
	case goOn:
		p.pc++
	default:
		p.pc = uint8(next)
	}
	p.phase = idle
	return true
}

// receive has a process take its answer and go on.
func (w *world) receive(s *state, i int) {
	p := &s.proc[i]
	st := &w.prog[i][p.pc]
	t := &turn{w, s, p, i}
	if w.tellTo != nil && p.ans.code != noAnswer {
		w.tell(Event{Kind: Receives, Who: w.who(i)})
	}
	if p.ans.code == noAnswer && !st.raw {
		p.tried, p.phase, p.ans = true, idle, answer{}
		w.run(s, i)
		return
	}
	next := goOn
	if st.got != nil {
		next = st.got(t)
	}
	if w.lead(p, next) {
		w.run(s, i)
	}
}

// start reports whether the process may take a step of its own, and takes it.
func (w *world) start(s *state, i int) bool {
	p := &s.proc[i]
	if p.phase == idle {
		if p.pc == 0 && i < clients && w.mayStart != nil && !w.mayStart(s, i) {
			return false
		}
		if w.waitsFor(s, i) {
			return false
		}
		if i < clients {
			s.granted = max(s.granted, uint8(i+1))
		}
	}
	w.run(s, i)
	return true
}
