package cell

import (
	"cmp"
	"container/list"
	"slices"
	"sync"

	"github.com/pawlproject/pawl/internal/locktable"
)

const (
	// turnMax bounds the commands of each kind that one turn takes.
	turnMax = 8192
	// queuedMax bounds the acquires that wait to be decided. QueuedDefault bounds those
	// of a named identity without a limit of its own, streamQueueMax those of a stream. An
	// acquire beyond a bound is refused as exhausted. Every named identity has room for
	// QueuedKept even when others have filled the rest.
	queuedMax      = 1 << 16
	QueuedDefault  = 1 << 14
	QueuedKept     = 1 << 8
	streamQueueMax = 1 << 14
	// AllQueuedBytesMax bounds the bytes of the acquires that wait to be decided, and
	// QueuedBytesMax those of a named identity. Of all bytes keptBytesMax are reserved
	// for identities with at most QueuedBytesKept waiting: room for two acquires of the
	// largest size, or for QueuedKept ordinary ones, when others have filled the rest.
	// 256 identities may use up the reserve at once.
	AllQueuedBytesMax = 256 << 20
	QueuedBytesMax    = 64 << 20
	QueuedBytesKept   = 256 << 10
	keptBytesMax      = 64 << 20
	// floodMin is how many urgent commands make streams wait before they are read
	// again.
	floodMin = 2 * turnMax
	// urgentMax is the number of urgent commands from which a named identity
	// blocks itself instead of those behind it.
	urgentMax = turnMax
)

// tooMuchQueued is why an acquire is refused for which there is no room.
const tooMuchQueued = "too many acquires, or too many bytes of them, wait to be decided"

// intake queues commands. Urgent ones (renew, release, cancel, close, reads) are never
// refused. Acquires wait in one queue per stream, within limits. Identities are served
// round-robin, and so are the streams of each.
type intake struct {
	ready chan struct{}
	// later says that there is something in urgent that can wait for renewalGap.
	later chan struct{}

	mu     sync.Mutex
	shut   bool
	urgent []locktable.Command
	parts  []part // of urgent, in its order
	// deferred: later was told since the last take.
	deferred bool
	// floodEnded, if not nil, is closed when the flood of urgent commands ends.
	floodEnded chan struct{}
	identities map[string]*identityQueue
	ring       []*identityQueue // those who wait, in their turn
	queued     int
	bytes      int // of the acquires that wait
	spare      []locktable.Command
}

// identityQueue is the queues of one identity.
type identityQueue struct {
	identity string
	unary    streamQueue // of everything without a stream
	queues   []*streamQueue
	queued   int
	bytes    int // of its acquires that wait
	// listed: it is in the ring.
	listed bool
	// urgent is the weight of its undecided urgent commands; reservations are those that
	// wait for room, in order.
	urgent       int
	reservations list.List
}

// part is urgent commands that came together; those of anonymous callers have no weight.
type part struct {
	of        *identityQueue
	n, weight int
}

// streamQueue is the acquires of one stream, or of everything of an identity without
// one.
type streamQueue struct {
	identity string
	// limit of the identity; 0: the default.
	limit  int
	items  []item
	listed bool
}

// item is an acquire in a queue. That of a call is with the call, which may withdraw
// it.
type item struct {
	command locktable.Command
	call    *call
	bytes   int
}

func newIntake() *intake {
	return &intake{ready: make(chan struct{}, 1), later: make(chan struct{}, 1), identities: map[string]*identityQueue{}}
}

// add takes in urgent commands that nobody is held up for; false: the intake is
// shut.
func (in *intake) add(c ...locktable.Command) bool { return in.addOf("", 0, c...) }

// addOf takes in an identity's. weight is what was reserved for them.
func (in *intake) addOf(identity string, weight int, c ...locktable.Command) bool {
	in.mu.Lock()
	if in.shut {
		in.mu.Unlock()
		return false
	}
	in.addUrgent(identity, weight, c...)
	in.mu.Unlock()
	in.wake()
	return true
}

func (in *intake) addUrgent(identity string, weight int, c ...locktable.Command) {
	in.urgent = append(in.urgent, c...)
	if identity != "" && weight > 0 {
		in.parts = append(in.parts, part{in.queueOf(identity), len(c), weight})
		return
	}
	if n := len(in.parts); n > 0 && in.parts[n-1].of == nil {
		in.parts[n-1].n += len(c)
		return
	}
	in.parts = append(in.parts, part{n: len(c)})
}

// tookUrgent takes the first n urgent commands off their identities' weights.
func (in *intake) tookUrgent(n int) {
	whole := 0
	for i := range in.parts {
		p := &in.parts[i]
		if p.n > n {
			p.n -= n
			break
		}
		n -= p.n
		whole++
		if p.of != nil {
			p.of.free(p.weight)
		}
	}
	rest := append(in.parts[:0], in.parts[whole:]...)
	clear(in.parts[len(rest):])
	in.parts = rest
}

// renew queues a renewal. It waits at most renewalGap for other renewals or any other
// command, since otherwise each of thousands of sessions would cause a turn and a
// Confirm.
func (in *intake) renew(identity string, weight int, c locktable.Heard) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.shut {
		return
	}
	in.addUrgent(identity, weight, c)
	if !in.deferred {
		in.deferred = true
		select {
		case in.later <- struct{}{}:
		default:
		}
	}
}

// acquire takes in acquires of a stream. It returns those for which there is no
// room, and false when the intake is shut.
func (in *intake) acquire(l *streamQueue, all []locktable.Acquire) (refused []locktable.Acquire, open bool) {
	in.mu.Lock()
	if in.shut {
		in.mu.Unlock()
		return nil, false
	}
	return in.queue(in.queueOf(l.identity), l, all), true
}

// single takes in an acquire without a stream. limit bounds the acquires of its identity
// that wait; 0: the default.
func (in *intake) single(limit int, a locktable.Acquire) (refused, open bool) {
	in.mu.Lock()
	if in.shut {
		in.mu.Unlock()
		return false, false
	}
	k := in.queueOf(a.Identity)
	k.unary.limit = limit
	return len(in.queue(k, &k.unary, []locktable.Acquire{a})) > 0, true
}

func (in *intake) queueOf(identity string) *identityQueue {
	k := in.identities[identity]
	if k == nil {
		// It stays: there are not more than identities in the policy.
		k = &identityQueue{identity: identity}
		in.identities[identity] = k
	}
	return k
}

// queue takes in what there is room for, and lets go of the lock. It takes the first
// ones: what comes behind one that was refused is refused, too.
func (in *intake) queue(k *identityQueue, l *streamQueue, all []locktable.Acquire) (refused []locktable.Acquire) {
	room := in.room(k, l, len(all))
	for i := range all[:room] {
		size := bytesOf(&all[i])
		if !in.fits(k, size) {
			room = i
			break
		}
		in.bytes += size
		k.bytes += size
		x := item{command: all[i], bytes: size}
		if of, unary := all[i].Ref.(*call); unary {
			of.queued = queued{acquire: x.command, queue: k, bytes: size}
			x = item{call: of}
		}
		l.items = append(l.items, x)
	}
	in.queued += room
	k.queued += room
	if room > 0 && !k.listed {
		k.listed = true
		in.ring = append(in.ring, k)
	}
	if room > 0 && !l.listed {
		l.listed = true
		k.queues = append(k.queues, l)
	}
	in.mu.Unlock()
	if room > 0 {
		in.wake()
	}
	return all[room:]
}

// acquireBytes is about what an acquire takes up beside its texts, nameBytes a name.
const (
	acquireBytes = 512
	nameBytes    = 16
)

// bytesOf is what an acquire takes up while it waits. It may be one that is too large
// to be granted: that is found when it is decided.
func bytesOf(a *locktable.Acquire) int {
	n := acquireBytes + len(a.Label) + len(a.Value) + len(a.Salt) + nameBytes*len(a.Names)
	for _, name := range a.Names {
		n += len(name)
	}
	return n
}

// fits reports whether there is room for so many bytes more.
func (in *intake) fits(k *identityQueue, more int) bool {
	own, all := k.bytes+more, in.bytes+more
	if k.identity != "" && own <= QueuedBytesKept {
		return all <= AllQueuedBytesMax
	}
	return all <= AllQueuedBytesMax-keptBytesMax && (k.identity == "" || own <= QueuedBytesMax)
}

// unload gives back the room of bytes that wait no more.
func (in *intake) unload(k *identityQueue, bytes int) {
	k.bytes -= bytes
	in.bytes -= bytes
}

// withdraw removes an acquire that has not been decided. It returns false when the
// acquire was decided or is being decided; the caller then submits a Cancel. The
// acquire's place in the queue stays and counts until its turn comes; it holds no
// bytes.
func (in *intake) withdraw(x *call) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	q := &x.queued
	if q.queue == nil {
		return false
	}
	if q.acquire != nil && !in.shut {
		in.unload(q.queue, q.bytes)
	}
	q.acquire, q.bytes = nil, 0
	return true
}

// drop takes back what is left in the queue of a stream that has ended. It would be
// decided without effect: the client asks again on its next stream.
func (in *intake) drop(l *streamQueue) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.shut || !l.listed {
		return
	}
	k := in.queueOf(l.identity)
	for i := range l.items {
		in.unload(k, l.items[i].bytes)
	}
	in.queued -= len(l.items)
	k.queued -= len(l.items)
	l.items, l.listed = nil, false
	i := slices.Index(k.queues, l)
	k.queues = slices.Delete(k.queues, i, i+1)
}

func (in *intake) wake() {
	select {
	case in.ready <- struct{}{}:
	default:
	}
}

// take empties the intake into two lists, as far as a turn may: at most turnMax
// urgent commands and, unless acquires are held back, as many acquires.
// complete: no urgent command is left. The lists are valid until the next take.
func (in *intake) take(held bool, acquires []locktable.Command) (urgent, taken []locktable.Command, complete bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.deferred = false
	clear(in.spare)
	if complete = len(in.urgent) <= turnMax; complete {
		urgent = in.urgent
		in.urgent, in.spare = in.spare[:0], urgent
	} else {
		urgent = append(urgent, in.urgent[:turnMax]...)
		in.urgent = append(in.urgent[:0], in.urgent[turnMax:]...)
	}
	in.tookUrgent(len(urgent))
	if len(in.urgent) < floodMin {
		in.endFlood()
	}
	taken = acquires[:0]
	if !held {
		taken = in.round(taken)
	}
	if len(in.urgent) > 0 || len(in.ring) > 0 && !held {
		in.wake()
	}
	return urgent, taken, complete
}

// room is how many of n acquires the queue of a stream may take in.
func (in *intake) room(k *identityQueue, l *streamQueue, n int) int {
	free, limit := queuedMax-in.queued, queuedMax
	if k.identity != "" {
		free = max(free, QueuedKept-k.queued)
		limit = cmp.Or(l.limit, QueuedDefault)
	}
	return max(min(free, limit-k.queued, streamQueueMax-len(l.items), n), 0)
}

// round serves the identities in turn, a portion from each, and puts those who
// still wait behind the others.
func (in *intake) round(taken []locktable.Command) []locktable.Command {
	n := len(in.ring)
	each := max(turnMax/max(n, 1), 16)
	for ; n > 0 && len(taken) < turnMax; n-- {
		k := in.ring[0]
		in.ring = in.ring[1:]
		waited := k.queued
		taken = in.portion(k, taken, min(each, turnMax-len(taken)))
		in.queued -= waited - k.queued
		if k.listed = k.queued > 0; k.listed {
			in.ring = append(in.ring, k)
		}
	}
	return taken
}

// portion serves the lines of an identity in turn, a portion from each and up to most
// of all.
func (in *intake) portion(k *identityQueue, taken []locktable.Command, most int) []locktable.Command {
	n := len(k.queues)
	each := max(turnMax/max(n, 1), 16)
	for ; n > 0 && most > 0; n-- {
		l := k.queues[0]
		k.queues = k.queues[1:]
		portion := min(len(l.items), each, most)
		for i := range l.items[:portion] {
			c, bytes := l.items[i].command, l.items[i].bytes
			if x := l.items[i].call; x != nil {
				c, bytes = x.queued.acquire, x.queued.bytes
				x.queued = queued{}
			}
			in.unload(k, bytes)
			if c != nil {
				taken = append(taken, c)
			}
		}
		k.queued -= portion
		most -= portion
		clear(l.items[:portion])
		if portion == len(l.items) {
			l.items, l.listed = l.items[:0], false
			continue
		}
		l.items = l.items[portion:]
		k.queues = append(k.queues, l)
	}
	return taken
}

// close shuts the intake and drops what is in it.
func (in *intake) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.shut = true
	for _, k := range in.identities { //tidy:unordered each is let go
		k.grantAll()
		for _, l := range k.queues {
			l.items = nil
		}
		k.queues, k.queued, k.bytes = nil, 0, 0
	}
	in.parts, in.urgent, in.ring, in.identities, in.queued, in.bytes = nil, nil, nil, nil, 0, 0
	in.endFlood()
}

// floodEnd is nil while there is no flood of urgent commands; otherwise it is
// closed at its end.
func (in *intake) floodEnd() <-chan struct{} {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.urgent) < floodMin {
		return nil
	}
	if in.floodEnded == nil {
		in.floodEnded = make(chan struct{})
	}
	return in.floodEnded
}

func (in *intake) endFlood() {
	if in.floodEnded != nil {
		close(in.floodEnded)
		in.floodEnded = nil
	}
}
