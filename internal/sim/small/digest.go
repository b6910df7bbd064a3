package small

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"slices"
	"time"
	"unsafe"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/step"
)

// rule says how a field enters the digest. Times, and numbers that only go up, enter
// relative to what they are compared with, so that states that differ only in them are
// one.
type rule uint8

const (
	asIs rule = iota
	// not: it is derived, never differs, or decides nothing here.
	not
	// outside: no part of the state, or written down otherwise.
	outside
	// beforeNow is a reading, as long ago as usable time can count it.
	beforeNow
	// afterLow is a moment of usable time, from what is counted; afterLowOrNone
	// one that may be none, 0.
	afterLow
	afterLowOrNone
	// turnsAgo counts back from the core's turn, 0 apart.
	turnsAgo
	// turnsSuspect counts back from the turn of the suspects, to the number that
	// matters.
	turnsSuspect
	// beyondHead is a batch's number, from the last durable one, 0 apart.
	beyondHead
	// age of a reading, in full.
	age
	// rank among those of its agenda.
	rank
)

// rules of fields, by type and name; every other field is taken as it is, and of
// funcs and channels nothing.
var rules = map[string]map[string]rule{
	"Core": {
		"nonce": not, "turn": not, "confirmed": turnsAgo, "asked": turnsAgo, "askedAt": not, "sum": not,
		"last": beyondHead, "durable": beyondHead, "inFlight": not, "decided": not, "out": not,
	},
	"Group":    {"turn": turnsAgo, "need": beyondHead, "Counts": not},
	"Follower": {"limits": not, "bytes": not, "batches": not},
	"Replayed": {"head": beyondHead, "sum": not, "durable": not, "Growth": not},
	"usable":   {"low": not, "last": beforeNow, "turn": turnsAgo},
	"Table":    {"limits": not, "cell": not, "secret": not, "names": not},
	"session": {
		"label": not, "identity": not, "opened": not, "deadline": afterLow, "quiet": afterLow, "silentAt": afterLow,
		"promised": afterLowOrNone,
		"slot":     not, "handle": not, "suspect": not,
	},
	"lease":       {"since": not, "args": not},
	"waiter":      {"asked": afterLow, "args": not, "one": not},
	"agenda":      {"drawn": not},
	"appointment": {"at": afterLow, "order": rank},
	"suspects":    {"turn": not, "drawn": not},
	"suspect":     {"mark": not, "since": afterLow, "turn": turnsSuspect},
	"Granted":     {"Waited": not},

	"World":   {"bounds": outside, "steps": outside, "disk": outside, "failure": outside, "spared": outside, "resumed": outside},
	"Bounds":  {"Name": outside, "Depth": outside},
	"server":  {"world": outside, "wire": outside, "tenure": outside, "turns": not, "askedIn": turnsAgo, "asks": not},
	"flight":  {"number": beyondHead, "turn": turnsAgo, "batch": outside},
	"stray":   {"number": beyondHead, "txn": outside},
	"landing": {"raw": outside},
	"client":  {"world": outside, "sent": outside},
	"Window":  {"anchor": age, "floor": not},
	"sending": {"at": age},
	"judge":   {"world": outside, "head": not, "table": outside, "asBytes": outside, "past": outside, "silent": outside, "ttls": outside},
}

// field is a field of a struct as the digest takes it.
type field struct {
	at   int
	rule rule
}

// plans says how structs are taken. exact ones take everything as it is.
type plans struct {
	exact bool
	known map[reflect.Type][]field
}

func newPlans(exact bool) *plans { return &plans{exact, map[reflect.Type][]field{}} }

func (p *plans) of(t reflect.Type) []field {
	if fields, ok := p.known[t]; ok {
		return fields
	}
	var fields []field
	for i := range t.NumField() {
		r := rules[t.Name()][t.Field(i).Name]
		switch {
		case r == outside, generated(t) && !t.Field(i).IsExported():
		case p.exact:
			fields = append(fields, field{i, asIs})
		case r != not:
			fields = append(fields, field{i, r})
		}
	}
	p.known[t] = fields
	return fields
}

// generated reports whether a type is a record of the log: what it does not
// export is the encoder's own.
func generated(t reflect.Type) bool { return t.PkgPath() == recordsPath }

var recordsPath = reflect.TypeFor[recordpb.Event]().PkgPath()

// digest writes a state down. Pointers are numbered as they are met, so that
// equal graphs read alike.
type digest struct {
	world *World
	plans *plans
	out   []byte
	met   map[unsafe.Pointer]int

	// What times and numbers are compared with, in the server at hand.
	low                time.Duration
	turn, suspectsTurn uint64
	orders             []uint64
}

// key of the present state.
func (w *World) key(p *plans) Key {
	d := digest{world: w, plans: p, out: make([]byte, 0, 8<<10), met: make(map[unsafe.Pointer]int, 64)}
	d.value(reflect.ValueOf(w).Elem())
	d.out = append(d.out, w.judge.frozen()...)
	d.unread()
	for _, c := range w.clients {
		// Which renewals were sent after the log learned of its silence.
		at := w.judge.silent[c.session]
		for n, sent := range c.sent {
			d.word(uint64(n))
			d.value(reflect.ValueOf(at != 0 && sent > at))
		}
	}
	sum := sha256.Sum256(d.out)
	return Key(sum[:16])
}

func (d *digest) word(x uint64) { d.out = binary.AppendUvarint(d.out, x) }

func (d *digest) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		d.word(map[bool]uint64{true: 1}[v.Bool()])
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		d.word(uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		d.word(v.Uint())
	case reflect.String:
		d.word(uint64(v.Len()))
		d.out = append(d.out, v.String()...)
	case reflect.Slice, reflect.Array:
		d.word(uint64(v.Len()))
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			d.out = append(d.out, v.Bytes()...)
			return
		}
		for i := range v.Len() {
			d.value(v.Index(i))
		}
	case reflect.Map:
		d.entries(v)
	case reflect.Interface:
		d.word(uint64(len(v.Elem().String())))
		if !v.IsNil() {
			d.out = append(d.out, v.Elem().Type().String()...)
			d.value(v.Elem())
		}
	case reflect.Pointer:
		d.pointer(v)
	case reflect.Struct:
		d.fields(v)
	}
}

func (d *digest) pointer(v reflect.Value) {
	if v.IsNil() {
		d.word(0)
		return
	}
	at, met := d.met[v.UnsafePointer()]
	if !met {
		at = len(d.met) + 1
		d.met[v.UnsafePointer()] = at
	}
	d.word(uint64(at))
	if !met {
		d.value(v.Elem())
	}
}

// entries writes a map in the order of its keys.
func (d *digest) entries(v reflect.Value) {
	d.word(uint64(v.Len()))
	if v.Len() == 0 {
		return
	}
	type entry struct {
		key   []byte
		value reflect.Value
	}
	var all []entry
	for i := v.MapRange(); i.Next(); {
		begin := len(d.out)
		d.value(i.Key())
		all = append(all, entry{slices.Clone(d.out[begin:]), i.Value()})
		d.out = d.out[:begin]
	}
	slices.SortFunc(all, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	for _, e := range all {
		d.out = append(d.out, e.key...)
		d.value(e.value)
	}
}

func (d *digest) fields(v reflect.Value) {
	switch v.Type() {
	case serverType:
		d.bases(v)
	case agendaType:
		d.ranks(v)
	case sessionType:
		// Without a time of its own it has none to compare.
		if !v.FieldByName("timed").Bool() {
			low := d.low
			d.low = 0
			defer func() { d.low = low }()
		}
	}
	for _, f := range d.plans.of(v.Type()) {
		x := v.Field(f.at)
		switch f.rule {
		case asIs:
			d.value(x)
		case beforeNow:
			d.word(uint64(min(d.ago(x), step.ShareMax)))
		case age:
			d.word(uint64(d.ago(x)))
		case afterLow:
			d.word(uint64(x.Int() - int64(d.low)))
		case afterLowOrNone:
			if d.word(uint64(min(x.Int(), 1))); x.Int() != 0 {
				d.word(uint64(x.Int() - int64(d.low)))
			}
		case turnsAgo:
			d.since(d.turn, x.Uint())
		case turnsSuspect:
			d.word(min(d.suspectsTurn-x.Uint(), suspectTurns))
		case rank:
			at, _ := slices.BinarySearch(d.orders, x.Uint())
			d.word(uint64(at))
		case beyondHead:
			d.since(x.Uint(), d.world.judge.head)
		}
	}
}

// since writes a distance; 0, which stands for none, stays apart.
func (d *digest) since(a, b uint64) {
	if a == 0 || b == 0 {
		d.word(1 << 40)
		return
	}
	d.word(a - b)
}

// ago is the time since a reading.
func (d *digest) ago(x reflect.Value) time.Duration {
	boot := time.Duration(x.FieldByName("Boot").Int())
	return d.world.reading().Shorter(clock.Reading{Boot: boot, Raw: boot})
}
