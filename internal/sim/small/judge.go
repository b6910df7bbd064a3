package small

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// judge keeps a naive account of the durable log and holds against it what
// servers say, clients believe and the disk takes.
type judge struct {
	world *World
	// epoch in force, head the last batch before the first hole, behind what lies
	// behind one.
	epoch, head uint64
	behind      map[uint64]landing
	// table is what the durable log gives; asBytes keeps it written down until it
	// changes.
	table   *locktable.Table
	asBytes []byte
	// past are the durable batches, where standbys follow the log.
	past map[uint64]past

	// grants are the tokens of the name; holder is the present one, 0 when it is
	// free, holds its session.
	grants          []guard.Token
	counter, holder guard.Token
	holds           locktable.ID
	lives           map[locktable.ID]bool
	// silent is when the log learned that a session is silent, in steps.
	silent map[locktable.ID]int
	// ttls are those that the log has.
	ttls map[locktable.ID]time.Duration
}

// landing is a batch in the log.
type landing struct{ raw, events []byte }

func newJudge(w *World) *judge {
	return &judge{
		world: w, behind: map[uint64]landing{}, past: map[uint64]past{}, table: locktable.New(bounds.DefaultLimits),
		lives: map[locktable.ID]bool{}, silent: map[locktable.ID]int{}, ttls: map[locktable.ID]time.Duration{},
	}
}

var keys kvlog.Keys

// numberOf reads the number in a key of the log.
func numberOf(key string) (uint64, bool) {
	digits, ok := strings.CutPrefix(key, "log/")
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil
}

// landed takes in what the disk has taken.
func (j *judge) landed(t kvlog.Txn) {
	for _, op := range t.Then {
		n, isLog := numberOf(op.Key)
		switch {
		case op.Kind == kvlog.OpPut && op.Key == keys.Tenure():
			var v struct{ Epoch uint64 }
			_ = json.Unmarshal(op.Value, &v)
			if v.Epoch <= j.epoch {
				j.world.fail("I4", "epoch %d is claimed after epoch %d", v.Epoch, j.epoch)
			}
			j.epoch = v.Epoch
		case op.Kind == kvlog.OpPut && isLog:
			j.put(n, op.Value)
		case op.Kind == kvlog.OpDelete && isLog:
			if n <= j.head {
				j.world.fail("I4", "batches from %d on are cut, and %d are durable", n, j.head)
			}
			j.world.noteCut()
			clear(j.behind)
		}
	}
}

// put takes in a batch: none of an ended tenure, and none in the place of a
// durable one.
func (j *judge) put(n uint64, raw []byte) {
	h, err := store.HeaderOf(raw)
	switch {
	case err != nil:
		j.world.fail("I4", "batch %d does not read: %v", n, err)
		return
	case h.Epoch != j.epoch:
		j.world.fail("I4", "batch %d of epoch %d lands while epoch %d is in force", n, h.Epoch, j.epoch)
	case n <= j.head:
		j.world.fail("I4", "batch %d is written over, and was durable", n)
		return
	}
	j.behind[n] = landing{raw, eventsIn(raw)}
	for x := j.behind[j.head+1]; x.raw != nil; x = j.behind[j.head+1] {
		j.head++
		delete(j.behind, j.head)
		b, sum, _ := store.OpenBatch(x.raw)
		if j.world.bounds.Follows > 0 {
			j.past[j.head] = past{sum, x.events}
		}
		for _, e := range b.Events {
			j.event(e)
			j.asBytes = nil
			if err := j.table.Apply(e); err != nil {
				j.world.fail("I9", "the log cannot be replayed: %v", err)
			}
		}
	}
}

// event takes in one durable event.
func (j *judge) event(e *recordpb.Event) {
	w := j.world
	var id locktable.ID
	copy(id[:], e.Session)
	token := guard.Token(e.Token)
	switch e.Kind {
	case recordpb.Kind_KIND_TENURE:
		if token <= j.counter {
			w.fail("I1", "the counter goes from %d to %d at a take-over", j.counter, token)
		}
		j.counter = token
	case recordpb.Kind_KIND_SESSION_OPENED:
		j.lives[id], j.ttls[id] = true, time.Duration(e.TtlNano)
	case recordpb.Kind_KIND_SESSION_TTL:
		j.ttls[id] = time.Duration(e.TtlNano)
	case recordpb.Kind_KIND_SESSION_SILENT:
		j.silent[id] = w.steps
	case recordpb.Kind_KIND_SESSION_HEARD:
		delete(j.silent, id)
	case recordpb.Kind_KIND_SESSION_EXPIRED, recordpb.Kind_KIND_SESSION_CLOSED:
		delete(j.lives, id)
		delete(j.silent, id)
		if j.holds == id {
			j.holder, j.holds = 0, locktable.ID{}
		}
		for _, c := range w.clients {
			j.believes(c)
		}
	case recordpb.Kind_KIND_GRANTED, recordpb.Kind_KIND_GRANTED_RIDER:
		j.granted(token, id)
	case recordpb.Kind_KIND_RELEASED, recordpb.Kind_KIND_BROKEN:
		if token != j.holder {
			w.fail("I2", "token %d is released and is not held", token)
		}
		j.holder, j.holds = 0, locktable.ID{}
		for _, c := range w.clients {
			if c.token == token && c.trusts() && !e.Forced {
				w.fail("I5", "%s trusts token %d, and it was released by nobody", c.name(), token)
			}
		}
	}
}

// promises fails when a server promises more than its successor will give (I5).
func (j *judge) promises(s *server, c *client, ttl time.Duration) {
	if s.epoch == j.epoch && ttl > j.ttls[c.session] {
		j.world.fail("I5", "%s promises %v to %s, and the log has a TTL of %v", s.name(), ttl, c.name(), j.ttls[c.session])
	}
}

func (j *judge) granted(token guard.Token, id locktable.ID) {
	w := j.world
	switch {
	case token <= j.counter:
		w.fail("I1", "token %d is granted after token %d", token, j.counter)
	case j.holder != 0:
		w.fail("I2", "token %d is granted while token %d holds", token, j.holder)
	case !j.lives[id]:
		w.fail("I7", "token %d is granted to a session that does not live", token)
	}
	j.counter, j.holder, j.holds = token, token, id
	j.grants = append(j.grants, token)
}

// believes fails when a client believes in a session that has ended (I5).
func (j *judge) believes(c *client) {
	if c.session != (locktable.ID{}) && c.generation > 0 && !j.lives[c.session] && c.trusts() {
		j.world.fail("I5", "%s trusts its session for %v more, and it has ended",
			c.name(), c.window.Remaining(j.world.reading()))
	}
}

// decided holds the end of a session, decided and not yet durable, against what
// its holder believes: by then its deadline has passed (I5). What a server
// decides after its tenure never comes to be.
func (j *judge) decided(s *server, raw []byte) {
	if s.epoch != j.epoch {
		return
	}
	b, _, _ := store.OpenBatch(raw)
	for _, e := range b.Events {
		for _, c := range j.world.clients {
			if e.Kind == recordpb.Kind_KIND_SESSION_EXPIRED && bytes.Equal(e.Session, c.session[:]) && c.trusts() {
				j.world.fail("I5", "%s ends the session of %s, which trusts it for %v more",
					s.name(), c.name(), c.window.Remaining(j.world.reading()))
			}
		}
	}
}

// answered compares an answer that a server sends with the log (I3).
func (j *judge) answered(s *server, r *locktable.Reply) {
	w := j.world
	x := r.To.(*stream)
	c := w.clients[x.client]
	q := question{number: r.Number}
	switch a := r.Answer.(type) {
	case locktable.Renewed:
		q = question{true, a.Number}
		j.promises(s, c, a.TTL)
		if at := j.silent[c.session]; at != 0 && x == c.stream && a.Number < uint64(len(c.sent)) && at < c.sent[a.Number] {
			w.fail("I5", "%s answers a renewal of %s, and by the log its session was silent before it was sent", s.name(), c.name())
		}
	case locktable.Attached:
		q = question{true, c.greeting}
		j.promises(s, c, a.TTL)
		if !j.lives[c.session] && x == c.stream {
			w.fail("I3", "%s greets %s, and no durable batch has its session", s.name(), c.name())
		}
	case locktable.Granted:
		if !slices.Contains(j.grants, a.Token) {
			w.fail("I3", "%s says that token %d is granted, and no durable batch does", s.name(), a.Token)
		}
	case locktable.Done:
		if r.Number == c.releasing && j.holder == c.gave && c.gave != 0 {
			w.fail("I3", "%s says that token %d is released, and no durable batch does", s.name(), j.holder)
		}
	}
	if slices.Contains(x.tooLate, q) {
		w.fail("I3", "%s of epoch %d answers %T to a question that came after epoch %d was claimed", s.name(), s.epoch, r.Answer, s.epoch+1)
	}
}

// replayed holds a server that has just read the log against the account of
// it (I9).
func (j *judge) replayed(s *server) {
	// The opening batch is decided, and not yet in the log.
	mine := s.core.Table().Freeze(locktable.Now{})
	log := slices.Collect(j.table.Freeze(locktable.Now{}).Events())
	i := 0
	for e := range mine.Events() {
		opened := e.Kind == recordpb.Kind_KIND_PAST_TENURE && e.Epoch == s.epoch || e.Kind == recordpb.Kind_KIND_COUNTER
		if opened {
			continue
		}
		if i >= len(log) || !proto.Equal(e, log[i]) {
			j.world.fail("I9", "%s replays %v, and the log has another event there", s.name(), e)
			return
		}
		i++
	}
	if i != len(log)-1 {
		j.world.fail("I9", "%s replays less than the log has", s.name())
	}
}

// checkAtRest holds a server at rest, which has nothing decided that is not durable,
// against the log (I9).
func (j *judge) checkAtRest() {
	for _, s := range j.world.servers {
		if s.phase != serving || s.epoch != j.epoch || !s.core.Idle() {
			continue
		}
		if !bytes.Equal(frozen(s.core.Table()), j.frozen()) {
			j.world.fail("I9", "%s has another table than the log gives", s.name())
		}
	}
}

// frozen is what the durable log gives, as bytes.
func (j *judge) frozen() []byte {
	if j.asBytes == nil {
		j.asBytes = frozen(j.table)
	}
	return j.asBytes
}

// frozen is what is decided in a table, as bytes.
func frozen(t *locktable.Table) []byte {
	var all []byte
	for e := range t.Freeze(locktable.Now{}).Events() {
		all = appendEvent(all, e)
	}
	return all
}

func appendEvent(b []byte, e *recordpb.Event) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(append(b, byte(e.Kind)), e)
	if err != nil {
		panic(err)
	}
	return b
}
