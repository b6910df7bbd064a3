package fencing

// The sizes of a world. They are fixed so that a state is one flat value, which is
// copied, compared and hashed without following a pointer.
const (
	clients   = 3  // A, B and C, with the tokens 1, 2 and 3
	procs     = 5  // the clients, and two that work beside them: a collector, relays
	objects   = 10 // names in the store
	inFlight  = 9  // requests on their way
	registers = 6  // locals of a process
)

// object is what lies under a name of the store.
type object struct {
	there bool
	gen   uint8 // counts the writes of the store: a unique version
	tok   uint8 // the token in the body
	set   uint8 // what the body contains: operations, or names that it refers to
	nonce uint8 // which attempt wrote it; 0: the body has none
}

type opcode uint8

const (
	opGet opcode = iota + 1
	opPut
	opPair // one transaction that puts two names
	opAppend
	opDelete
	opList
	opEffect // an effect outside of the store
	opSeeLease
	opAcquireLease
	opVerify // asks the lock service whether the token is still the newest
	opOpen   // raises the epoch of the last opener
	opRevoke
	opDecide  // a decision in the guarded outbox
	opTake    // the next decision that was not sent yet
	opAdvance // moves on behind a decision that was sent
)

// cond is the condition of a write.
type cond uint8

const (
	always cond = iota
	ifAbsent
	ifMatch
)

// message is a request on its way to the store.
type message struct {
	from, tok uint8
	op        opcode
	key       uint8
	cond      cond
	ver       [3]uint8 // the version that ifMatch names
	val       object   // the body that is written
	base      uint8    // the generation that the body was computed from, for the referee
	arg       uint8    // a key, a body, a lease id, an epoch
	until     uint8    // when what was admitted has taken effect at the latest
	stage     stage
	waited    bool // its sender waits for the answer
	marks     bool // a read with which a new holder takes over
}

// stage is how far the resource has gone with a request.
type stage uint8

const (
	underway  stage = iota
	admitted        // checked; its effect comes later
	abandoned       // admitted, and nobody waits for its end any more
)

type code uint8

const (
	noAnswer code = iota // lost, or late
	done
	refused // a check at the resource said no
	failed  // the condition of a write did not hold: 412
	missing // 404
	replay  // an idempotency key was known
)

type answer struct {
	code   code
	o      object
	behind bool // for the referee: it went behind the boundary of a collector
}

type phase uint8

const (
	idle    phase = iota // may take its next step
	checked              // has checked its deadline, and may be paused before it sends
	waiting
	answered
	finished
)

type process struct {
	pc    uint8
	phase phase
	tried bool // the request was sent before, without an answer
	runs  uint8
	ans   answer
	reg   [registers]uint8
}

// system is what stands at the resource beside the objects.
type system struct {
	seen    [2]uint8 // the highest token, for each replica that checks
	lease   uint8    // whose lease id the store takes; 0: none
	epoch   uint8
	keys    uint8 // idempotency keys that are remembered
	revoked uint8 // tokens below are refused
	pending uint8 // a revocation that has not reached the store
	now     uint8 // in ticks
	skew    uint8 // how far the store's clock is behind
	ended   uint8 // the leases of tokens up to this one have ended
	queue   [clients]uint8
	queued  uint8
	sent    uint8
	gone    uint8 // names up to this one were deleted by the collector
	spent   bool  // an event of the surroundings that happens once
}

// monitor is what the referee remembers of the past.
type monitor struct {
	top     uint8 // highest token of an effect
	mark    uint8 // highest token that has taken over
	done    uint8 // effects of the operation that all holders mean
	body    uint8 // with which body it was done
	missed  uint8 // clients whose entry a newer holder did not find
	acked   uint8
	fault   fault
	by, old uint8 // tokens that the fault names
}

// state is a world at one moment. All of it is bytes, so that it is packed as it lies.
type state struct {
	gen     uint8
	n       uint8 // requests on their way
	faults  uint8 // how many more may happen in this run
	crashes uint8
	repeats uint8
	losses  uint8
	granted uint8 // highest token that was granted
	sys     system
	mon     monitor
	proc    [procs]process
	obj     [objects]object
	net     [inFlight]message
}

// post puts a message on its way. Messages are ordered by sender, so that the order in
// which they were sent makes no difference.
func (s *state) post(m message) {
	if s.n == inFlight {
		panic("fencing: a world has more requests in flight than there is room for")
	}
	i := s.n
	for i > 0 && s.net[i-1].from > m.from {
		s.net[i] = s.net[i-1]
		i--
	}
	s.net[i] = m
	s.n++
}

// remove takes the i-th message from its way.
func (s *state) remove(i int) {
	copy(s.net[i:s.n], s.net[i+1:s.n])
	s.n--
	s.net[s.n] = message{}
}

// orphan has nobody wait any more for the request of a process.
func (s *state) orphan(from int) {
	for i := range s.net[:s.n] {
		if int(s.net[i].from) == from {
			s.net[i].waited = false
		}
	}
}

// holds reports whether a message that fits is on its way.
func (s *state) holds(fits func(*message) bool) bool {
	for i := range s.net[:s.n] {
		if fits(&s.net[i]) {
			return true
		}
	}
	return false
}
