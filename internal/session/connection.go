package session

import (
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

type connectionState uint8

const (
	connectionDown connectionState = iota
	connectionDialling
	connectionUp
)

// connection is the way to a server: at most one attempt or stream at a time.
type connection struct {
	state connectionState
	// id numbers attempts; what comes from an older one is not heard.
	id       uint64
	attempt  *Attempt
	dialled  time.Duration
	giveUpAt time.Duration
	dialAt   time.Duration
	upSince  time.Duration
	// turn picks the next server of the list, goTo is where a server, sentBy,
	// sent us.
	turn   int
	goTo   string
	sentBy string
	// unreached is a server that is not to be waited for: we were sent there and did
	// not reach it, or it served us and serves no more.
	unreached string
	// silences are the attempts since a welcome in which nothing was heard in time.
	silences int
	// failures in a row, since the beginning of epoch or since a steady stream.
	failures int
	// epoch is the newest tenure that has welcomed us.
	epoch uint64
	// refusals are those in a row of servers that will not have this client.
	refusals int
	cause    *Cause
	// saidUntil is the turn up to which cause stands, since a server that answers has said
	// it and sent us nowhere; servers that cannot be reached say less.
	saidUntil int
	// cancels are requests that the greeting under way still names and that
	// were given up since.
	cancels []uint64
}

// Attempt is one try: close the sessions in Closing, then greet Server.
type Attempt struct {
	ID     uint64
	Server string
	// SentBy is the server that redirected us to Server; empty: Server is one of
	// Settings.Servers.
	SentBy  string
	Hello   *linkpb.Hello
	Closing [][]byte

	renewal uint64
}

const (
	backoffMin = 20 * time.Millisecond
	backoffMax = time.Second
	attemptMin = 200 * time.Millisecond
	attemptMax = 5 * time.Second
	// silentMax bounds the first attempt at each of several servers while there is no
	// session: a silent server must not delay a client that has another one. The bound
	// doubles with each round, as all servers may be slow.
	silentMax = 2 * time.Second
	// refusedMin and refusedMax bound the pause after a server refused to know this
	// client: asking again soon changes nothing, and is written down there.
	refusedMin = time.Second
	refusedMax = 15 * time.Second
	// patienceMin keeps short TTLs from taking a slow disk for a dead server.
	patienceMin = 500 * time.Millisecond
	patienceMax = 10 * time.Second
	// steady is how long a stream must last to count as a success, unless it is the
	// first one in a tenure.
	steady = time.Second
)

// dial begins an attempt when one is due.
func (m *Machine) dial() {
	l := &m.conn
	if l.state != connectionDown || m.t < l.dialAt {
		return
	}
	l.id++
	l.state = connectionDialling
	a := &Attempt{ID: l.id, Server: l.goTo, Closing: append([][]byte(nil), m.dead...)}
	if a.Server == "" {
		a.Server = m.servers[l.turn%len(m.servers)]
	} else {
		a.SentBy = l.sentBy
	}
	l.goTo, l.sentBy = "", ""
	a.renewal = m.window.Send(m.now)
	a.Hello = m.hello()
	l.attempt, l.cancels = a, nil
	wait := m.attemptTime()
	l.dialled, l.giveUpAt = m.t, m.t+wait
	// A server that may take over soon should keep us: otherwise we would ask again and
	// again, or be sent back to a server that no longer serves. It answers before we
	// give it up, and before long, since the server that we did not reach may be back.
	if l.failures > 0 || l.unreached != "" {
		a.Hello.WaitNano, a.Hello.Unreached = int64(min(wait-wait/4, backoffMax)), l.unreached
	}
	m.effect(Effect{Kind: Dial, Attempt: a})
}

// attemptTime leaves room for several attempts before the deadline.
func (m *Machine) attemptTime() time.Duration {
	if m.id == nil {
		longest := attemptMax
		if n := len(m.servers); n > 1 {
			longest = min(silentMax<<min(m.conn.failures/n, 2), attemptMax)
		}
		return min(max(m.wantTTL/2, attemptMin), longest)
	}
	if m.ride.on {
		// All servers may be slow, and answer too late every time: after a round of
		// silence each has all the time until the next is to be asked, and half a second
		// for short TTLs, as an answer to a renewal has.
		if m.conn.silences >= len(m.servers) {
			return min(max(m.ttl/ridePerTTL-backoffMin, patienceMin), attemptMax)
		}
		return min(max(m.ttl/(2*ridePerTTL), attemptMin), attemptMax)
	}
	left := m.window.Remaining(m.now)
	return min(max(left/3, attemptMin), attemptMax, left)
}

func (m *Machine) hello() *linkpb.Hello {
	m.generation++
	h := &linkpb.Hello{
		Version: linkpb.Version, Cell: m.cell, HighestToken: uint64(m.highest),
		Session: m.id, Generation: m.generation, TtlNano: int64(m.wantTTL), Label: m.label,
		NextNumber: m.next,
	}
	if m.id == nil {
		return h
	}
	if m.ride.on {
		from, span, _ := m.window.Anchor()
		h.RidingNano = int64(m.now.Longer(from) - span)
	}
	for _, l := range m.held() {
		h.Held = append(h.Held, uint64(l.Token))
	}
	h.Held = append(h.Held, m.untold()...)
	h.Wanted = m.wanted()
	return h
}

// patience is how long a renewal may stay unanswered before the stream is
// taken for dead: a network that swallows everything tells nothing.
func (m *Machine) patience() time.Duration {
	return min(max(m.ttl/4, patienceMin), patienceMax)
}

func (m *Machine) checkConnection() {
	l := &m.conn
	switch l.state {
	case connectionDialling:
		if m.t >= l.giveUpAt {
			l.silences++
			m.unreached()
			m.failed(&Cause{Kind: Timeout, What: "greeting", Server: l.attempt.Server})
		}
	case connectionUp:
		if waited, ok := m.window.Unanswered(m.now); ok && waited >= m.patience() {
			m.failed(&Cause{Kind: Timeout, What: "renewal", Server: l.attempt.Server})
		}
	}
}

// failed notes that the attempt or the stream is of no more use. Another server
// is tried, after a pause that grows.
func (m *Machine) failed(why *Cause) {
	l := &m.conn
	if l.state == connectionDown {
		return
	}
	wasSteady := l.state == connectionUp && m.t-l.upSince >= steady
	if wasSteady {
		l.failures = 0
	}
	l.turn++
	m.closeStream(why)
	l.dialAt = m.t
	if !wasSteady {
		l.dialAt += m.backoff()
		l.failures++
	}
}

// noteRefusal notes that a server refused this client. The session may live until its
// deadline, and the credential may be replaced in time; holders of its leases are told
// at once. But a stream that ends as unauthenticated began with a valid credential, and
// its file may hold another one by now:
//
//  1. The new credential is written into the client's file. The stream goes on: it was
//     opened with the old one.
//  2. The server drops the old credential, and ends the stream.
//  3. The next attempt begins at once and reads the file. It is welcomed: there was
//     nothing to report. When it is refused as well, holders are told and waiting calls
//     are refused.
func (m *Machine) noteRefusal(why *Cause) {
	l := &m.conn
	replaced := l.state == connectionUp && why.Is(linkpb.Reason_REASON_UNAUTHENTICATED)
	m.failed(why)
	if replaced {
		return
	}
	if why.denied() {
		l.refusals++
		if round := l.refusals / len(m.servers); round > 0 {
			pause := max(min(m.wantTTL/renewals, refusedMax), refusedMin) << min(round-1, 5)
			l.dialAt = m.t + min(pause, m.longestPause(refusedMax))
		}
		m.refused = true
	}
	m.refuseAll(why)
}

// failOpenCalls answers calls that wait for the first session, which a limit of the
// server's keeps from them. A client that has had one goes on asking.
func (m *Machine) failOpenCalls(why *Cause) {
	if why.Is(linkpb.Reason_REASON_EXHAUSTED) {
		m.answerOpening(why)
	}
}

func (m *Machine) answerOpening(why *Cause) {
	for _, r := range m.openCallers {
		m.answer(r, why)
	}
	m.openCallers = nil
}

func (m *Machine) backoff() time.Duration {
	limit := m.longestPause(min(backoffMax, m.wantTTL/8))
	rounds := min(m.conn.failures/len(m.servers), 10)
	d := min(backoffMin<<rounds, limit)
	return d/2 + time.Duration(float64(d/2)*m.jitter())
}

// longestPause is limit, or less while leases ride: then a server is asked for every
// quarter of the TTL.
func (m *Machine) longestPause(limit time.Duration) time.Duration {
	if !m.ride.on {
		return limit
	}
	return min(limit, max(m.ttl/ridePerTTL-m.attemptTime(), backoffMin))
}

// redirect goes where the active server is said to be. Servers that send us
// round in circles are met with the growing pause.
func (m *Machine) redirect(to string, why *Cause) {
	l := &m.conn
	if m.kept() {
		l.failures = 1 // the pause is behind us
	}
	up := l.state == connectionUp
	first := l.failures == 0 || up
	by := ""
	if l.attempt != nil {
		by = l.attempt.Server
	}
	m.failed(why)
	if to == "" {
		l.saidUntil = l.turn + len(m.servers)
		if up {
			m.servesNoMore(by)
		}
		return
	}
	l.goTo, l.sentBy = to, by
	if first {
		l.dialAt = m.t
	}
}

// servesNoMore notes that a server said so itself. Another is asked first, and need
// not send us back.
func (m *Machine) servesNoMore(server string) {
	l := &m.conn
	l.unreached = server
	if n := len(m.servers); n > 1 && m.servers[l.turn%n] == server {
		l.turn++
	}
}

// closeStream ends the attempt or stream. What was sent on it and not answered is
// asked again on the next one.
func (m *Machine) closeStream(why *Cause) {
	l := &m.conn
	if l.state != connectionDown {
		m.effect(Effect{Kind: CloseStream})
	}
	l.state, l.attempt = connectionDown, nil
	if why != nil && !(why.Kind == NetworkError && l.turn < l.saidUntil) {
		l.cause, l.saidUntil = why, 0
	}
	m.outgoing = outgoing{}
	m.unwatch()
	m.window.Forget()
	for _, r := range m.requests { //tidy:unordered each on its own
		r.asked = r.asked || r.left
		r.sent, r.left = false, false
	}
}

// kept reports whether the server of this attempt has kept us waiting as it was
// asked to. It works, then, and a client that waits so asks seldom enough.
func (m *Machine) kept() bool {
	l := &m.conn
	if l.state != connectionDialling {
		return false
	}
	asked := time.Duration(l.attempt.Hello.WaitNano)
	return asked > 0 && m.t-l.dialled >= asked/2
}

// unreached notes that nobody is where a server sent us: it, and others, need not
// send us there again.
func (m *Machine) unreached() {
	if l := &m.conn; l.state == connectionDialling && l.attempt.SentBy != "" {
		l.unreached = l.attempt.Server
	}
}

// up notes that a server has welcomed us. Failures before a tenure began cause no
// pauses after its end, however soon that comes: when servers are restarted one after
// the other, each lives only briefly, and their clients are not at fault. A server that
// hangs up on us again and again within one tenure meets the growing pause.
func (m *Machine) up(epoch uint64) {
	l := &m.conn
	if epoch > l.epoch {
		l.epoch, l.failures = epoch, 0
	}
	l.state = connectionUp
	l.upSince = m.t
	l.cause, l.refusals, l.silences, l.unreached, l.saidUntil = nil, 0, 0, "", 0
	m.refused = false
}

// Disconnected handles the end of an attempt, or of the stream that came of it.
func (m *Machine) Disconnected(attempt uint64, why *Cause) {
	switch {
	case m.conn.state == connectionDown || attempt != m.conn.id:
	case why.denied():
		m.noteRefusal(why)
	default:
		m.unreached()
		m.failed(why)
		m.failOpenCalls(why)
	}
}

// Heard handles what the server of an attempt says.
func (m *Machine) Heard(attempt uint64, x *linkpb.ServerMessage) {
	switch {
	case m.conn.state == connectionDown || attempt != m.conn.id:
	case m.conn.state == connectionUp:
		m.receive(x)
	case x.Welcome != nil:
		m.welcome(x.Welcome, m.conn.attempt)
		if m.conn.state == connectionUp {
			m.receive(x)
		}
	case x.Closed != nil:
		m.closedBy(x.Closed)
	default:
		m.failed(noGreeting)
	}
}
