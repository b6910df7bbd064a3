package step

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
)

const (
	// eventsMax and bytesMax close a batch; the envelope is far smaller than what
	// lies between bytesMax and store.BatchMax, and one event than bytesMax.
	eventsMax = 8192
	// openMax bounds the events that are decided and not on their way, beyond
	// which no acquire is taken up.
	openMax  = 2 * eventsMax
	bytesMax = store.BatchMax - 4<<10
	// openBytesMax bounds their bytes in the same way. What one turn takes may pass it.
	openBytesMax = 64 << 20
	// Tick is how often a driver steps while a session lives.
	Tick = 100 * time.Millisecond
	// turnPortion bounds what one turn does of expiry, and of what expiry left.
	turnPortion = 1000
	// confirmGap is how long renewals wait at most to share a Confirm.
	confirmGap = 2 * time.Millisecond
)

// TurnBounds bound what one turn does and what one batch holds.
type TurnBounds struct {
	// Events and Bytes close a batch. Beyond twice as many events that are decided
	// and not on their way no acquire is taken from the intake.
	Events, Bytes int
	// Portion bounds what one turn does of expiry, and of what expiry left.
	Portion int
}

// Core is a tenure's state. Its methods are the step: they take what happened
// and a time, and gather what is to be done in out.
type Core struct {
	table  *locktable.Table
	epoch  uint64
	nonce  store.Nonce
	time   usable
	tight  bool
	bounds TurnBounds

	// turn counts steps. Everything that begins in a turn confirms what was
	// received up to it.
	turn      uint64
	confirmed uint64
	// asked is the turn of the Confirm that is under way; 0: there is none. askedAt
	// is when the last Confirm began.
	asked   uint64
	askedAt clock.Reading

	// last is the number of the last batch closed, sum its checksum; durable is
	// the last number before the first that has not landed.
	last     uint64
	sum      store.Sum
	durable  uint64
	inFlight map[uint64]*pendingBatch

	decided locktable.Decided
	open    []*recordpb.Event
	// sizes are those of the open events in a batch, openBytes their sum.
	sizes     []int
	openBytes int
	// changed is what the open events change; spare is room for the next ones.
	changed changed
	spare   []string
	groups  []Group
	// waiting counts the answers of the groups; more than roomy have those dropped
	// whose receivers are gone.
	waiting, dropAbove int
	// listed is how much the pages show that wait in groups, listing what those of
	// this turn do.
	listed, listing int

	wantSnapshot bool
	frozen       *Snapshot
	more         bool
	// unwritten: the store is full; nil: it takes what is written.
	unwritten *unwritten

	out Actions
}

// pendingBatch is a batch on its way: the turn in which its append began.
type pendingBatch struct {
	turn    uint64
	landed  bool
	raw     []byte
	changed changed
}

// Group is the answers of a turn. They leave when batch need is durable and
// something begun at or after the turn was confirmed.
type Group struct {
	turn, need uint64
	Replies    []locktable.Reply
	events     int
	// listed is how much its pages show.
	listed int
	Counts locktable.Counts
	// Early: it goes before records that are stuck, and counts was left out.
	Early bool
}

// Snapshot is the frozen table after a batch.
type Snapshot struct {
	UpTo   uint64
	sum    store.Sum
	frozen *locktable.Frozen
	// Bytes is the size of the chunks sealed so far.
	Bytes int64
}

func newCore(t *locktable.Table, epoch uint64, nonce store.Nonce) *Core {
	return &Core{table: t, epoch: epoch, nonce: nonce, inFlight: map[uint64]*pendingBatch{}, dropAbove: dropMin, bounds: TurnBounds{eventsMax, bytesMax, turnPortion}}
}

// opening closes the tenure's first batch; the caller lands it.
func (c *Core) opening(wall time.Time, floor guard.Token) []byte {
	c.table.Open(c.epoch, wall, floor, &c.decided)
	c.opened(c.decided.Events)
	c.decided = locktable.Decided{}
	c.close()
	return c.Take().Appends[0].Raw
}

// Begun says that the opening batch has landed. The tenure's time counts from
// now on.
func (c *Core) Begun(now clock.Reading) {
	clear(c.inFlight)
	c.durable = c.last
	c.time.last, c.askedAt = now, now
}

// Now is the time as the table may know it.
func (c *Core) Now(r clock.Reading, wall time.Time) locktable.Now {
	return locktable.Now{Low: c.time.low, High: c.time.high(r), Wall: wall}
}

// Step decides what was taken from the intake: urgent commands are all there
// was when the turn began when complete is set.
func (c *Core) Step(r clock.Reading, wall time.Time, urgent, acquires []locktable.Command, complete bool) {
	c.turn++
	c.time.read(r, c.turn)
	c.close()
	if c.wantSnapshot && len(c.open) == 0 && c.frozen == nil {
		c.wantSnapshot = false
		c.frozen = &Snapshot{UpTo: c.last, sum: c.sum, frozen: c.table.Freeze(c.Now(r, wall))}
	}
	now := c.Now(r, wall)
	for _, x := range urgent {
		if c.unwritten != nil && c.refuseOnFull(x) {
			continue
		}
		if l, is := x.(locktable.List); is {
			c.list(now, l)
		} else {
			c.table.Decide(now, x, &c.decided)
		}
	}
	expiring := c.table.Tick(now, complete, c.bounds.Portion, &c.decided)
	for _, x := range acquires {
		c.acquire(now, x)
	}
	working := c.table.Work(now, c.bounds.Portion, &c.decided)
	c.more = expiring || working
	c.gather()
	c.close()
	c.releaseFinal()
	c.Ask(r)
}

// Backlogged: acquires stay in the intake, since too much is decided that is not on
// its way, or a snapshot waits for what is decided to be closed. On a full store
// they are taken, and refused.
func (c *Core) Backlogged() bool {
	return c.unwritten == nil && (len(c.open) > openMax/eventsMax*c.bounds.Events || c.openBytes > openBytesMax || c.wantSnapshot)
}

// gather moves what the turn decided to the open batch and the queue of
// answers.
func (c *Core) gather() {
	c.opened(c.decided.Events)
	if c.unwritten != nil {
		c.unwritten.note(c.decided.Events)
	}
	c.noteChanges()
	need := c.last
	if len(c.open) > 0 {
		need = 0
	}
	if len(c.decided.Replies) > 0 || len(c.decided.Events) > 0 {
		c.groups = append(c.groups, Group{turn: c.turn, need: need, Replies: c.decided.Replies, events: len(c.decided.Events), listed: c.listing, Counts: c.table.Counts()})
		c.listed, c.listing = c.listed+c.listing, 0
		c.waiting += len(c.decided.Replies)
		c.decided.Replies = nil
		c.dropGone()
	}
	clear(c.decided.Events)
	c.decided.Events = c.decided.Events[:0]
}

// opened adds to the open events.
func (c *Core) opened(events []*recordpb.Event) {
	c.open = append(c.open, events...)
	for _, e := range events {
		size := proto.Size(e) + 8
		c.sizes = append(c.sizes, size)
		c.openBytes += size
	}
}

// close closes batches while the store takes more. Answers that wait for the open batch
// get its number once all that was decided with them is in closed batches.
func (c *Core) close() {
	for len(c.open) > 0 && c.last+1-c.durable <= store.InFlight {
		n, size := 0, 0
		for n < len(c.open) && n < c.bounds.Events {
			if n > 0 && size+c.sizes[n] > c.bounds.Bytes {
				break
			}
			size += c.sizes[n]
			n++
		}
		c.seal(c.open[:n])
		rest := copy(c.open, c.open[n:])
		clear(c.open[rest:])
		copy(c.sizes, c.sizes[n:])
		c.open, c.sizes, c.openBytes = c.open[:rest], c.sizes[:rest], c.openBytes-size
		if rest > 0 {
			continue
		}
		c.inFlight[c.last].changed, c.changed, c.spare = c.changed, changed{names: c.spare}, nil
		for i := len(c.groups) - 1; i >= 0 && c.groups[i].need == 0; i-- {
			c.groups[i].need = c.last
		}
	}
}

func (c *Core) seal(events []*recordpb.Event) {
	b := &recordpb.Batch{
		Epoch: c.epoch, Number: c.last + 1, Durable: c.durable, Nonce: c.nonce[:], Events: events,
	}
	if c.last > 0 {
		b.Previous = c.sum[:]
	}
	raw, sum, err := store.SealBatch(b)
	if err != nil {
		panic(fmt.Errorf("step: close batch %d: %w", b.Number, err))
	}
	c.last, c.sum = b.Number, sum
	c.inFlight[b.Number] = &pendingBatch{turn: c.turn, raw: raw}
	c.out.Appends = append(c.out.Appends, Batch{Number: b.Number, Raw: raw, Events: len(events)})
}

// Landed notes that a batch has landed, and closes what waited for its place.
func (c *Core) Landed(number uint64) {
	f := c.inFlight[number]
	f.landed, c.unwritten = true, nil
	c.confirm(f.turn)
	for {
		f := c.inFlight[c.durable+1]
		if f == nil || !f.landed {
			break
		}
		delete(c.inFlight, c.durable+1)
		c.durable++
		clear(f.changed.names)
		c.spare = f.changed.names[:0]
	}
	c.close()
	c.releaseFinal()
}

// Answered notes the end of the Confirm that was under way.
func (c *Core) Answered(ok bool) {
	if ok {
		c.confirm(c.asked)
	}
	c.asked = 0
	c.releaseFinal()
}

// confirm notes that the tenure was in force at or after a turn.
func (c *Core) confirm(turn uint64) {
	c.confirmed = max(c.confirmed, turn)
	c.time.confirmed(turn)
}

// releaseFinal lets go of what has become final, in order.
func (c *Core) releaseFinal() {
	n := 0
	for n < len(c.groups) {
		g := &c.groups[n]
		durable := g.need != 0 && g.need <= c.durable
		confirmed := g.turn <= c.confirmed
		if !durable || !confirmed {
			break
		}
		n++
		c.waiting -= len(g.Replies)
		c.listed -= g.listed
	}
	if n > 0 {
		c.out.Groups = append(c.out.Groups, c.groups[:n]...)
		rest := copy(c.groups, c.groups[n:])
		clear(c.groups[rest:])
		c.groups = c.groups[:rest]
	}
	if c.unwritten != nil {
		c.unwritten.passed = max(c.unwritten.passed-n, 0)
		c.passUnwritten()
	}
	if c.frozen != nil && c.frozen.UpTo <= c.durable {
		c.out.Snapshot, c.frozen = c.frozen, nil
	}
}

// Ask begins a Confirm when an answer, or a share of usable time, waits for one and no
// append under way will do. While the store is full no append will.
func (c *Core) Ask(r clock.Reading) {
	if c.asked != 0 || len(c.open) > 0 && c.unwritten == nil || r.Shorter(c.askedAt) < confirmGap {
		return
	}
	if c.waits() {
		c.asked, c.askedAt = c.turn, r
		c.out.Confirm = true
	}
}

// waits reports whether something needs a confirmation later than what is under
// way will give.
func (c *Core) waits() bool {
	coming := max(c.confirmed, c.asked)
	for _, f := range c.inFlight { //tidy:unordered a maximum
		if c.unwritten == nil {
			coming = max(coming, f.turn)
		}
	}
	if n := len(c.groups); n > 0 && c.groups[n-1].turn > coming {
		return true
	}
	return c.time.turn > coming
}

// Take returns what is to be done and forgets it.
func (c *Core) Take() Actions {
	a := c.out
	c.out = Actions{}
	return a
}
