package appends

import (
	"crypto/sha256"
	"encoding/binary"
	"reflect"
	"slices"

	"github.com/pawlproject/pawl/internal/sim/small"
)

// taken are the fields of kvlog's tenure that tell states apart; passed are those
// that never change after the claim, or decide nothing here.
var (
	taken  = []string{"over", "head", "opening", "durable", "revs", "landed", "follows"}
	passed = []string{
		"Store", "epoch", "nonce", "value", "rev", "opened", "lost", "stopBeat", "beating", "snapshots", "mu", "resigning", "sign",
	}
)

// digest writes a state down.
type digest struct{ out []byte }

func (d *digest) word(x uint64)  { d.out = binary.AppendUvarint(d.out, x) }
func (d *digest) bytes(b []byte) { d.out = appendBytes(d.out, b) }

func (d *digest) flags(all ...bool) {
	for _, f := range all {
		d.out = append(d.out, map[bool]byte{true: 1}[f])
	}
}

// key of the present state.
func (w *World) key() small.Key {
	d := digest{out: make([]byte, 0, 4<<10)}
	for _, n := range []int{w.left.Batches, w.left.Takes, w.left.Late, w.left.Unheard, w.left.SetBacks, w.left.ForeignWrites, w.left.Follows} {
		d.word(uint64(n))
	}
	d.flags(w.wasSetBack)
	d.position(w.standby)
	d.bytes(w.view[:])
	d.unordered(len(w.saved), func(d *digest, i int) { d.bytes(w.saved[i].view[:]) })
	d.unordered(len(w.strays), func(d *digest, i int) {
		d.word(uint64(w.strays[i].landed))
		d.request(w.strays[i].request)
	})
	for _, t := range w.tenures {
		d.tenure(t)
	}
	sum := sha256.Sum256(d.out)
	return small.Key(sum[:16])
}

// unordered writes n things in an order of their own.
func (d *digest) unordered(n int, write func(d *digest, i int)) {
	all := make([]string, n)
	for i := range all {
		var one digest
		write(&one, i)
		all[i] = string(one.out)
	}
	slices.Sort(all)
	d.word(uint64(n))
	for _, one := range all {
		d.bytes([]byte(one))
	}
}

func (d *digest) tenure(t *tenure) {
	d.word(uint64(t.phase))
	d.word(t.acked)
	d.position(t.from)
	d.bytes(t.value)
	d.word(uint64(len(t.batches)))
	for _, b := range t.batches {
		d.bytes(b.sum[:])
		d.flags(b.answered, b.landed, b.lost, b.call != nil)
		if c := b.call; c != nil {
			d.request(c.request)
			d.flags(c.landed, c.res.OK)
			d.word(uint64(c.res.Rev))
			for _, p := range c.res.Gets {
				d.word(uint64(p.Rev))
				d.bytes(p.Value)
			}
		}
	}
	if t.phase == over {
		return
	}
	real := reflect.ValueOf(t.real).Elem()
	d.value(real.FieldByName("Store").Elem().FieldByName("seen"))
	for _, name := range taken {
		d.value(real.FieldByName(name))
	}
}

// position is that of a standby, from which all follows that it has read.
func (d *digest) position(s standby) {
	d.word(s.at.Number)
	d.bytes(s.at.Sum[:])
}

func (d *digest) request(r request) {
	d.word(uint64(r.by.id))
	d.word(r.knew)
	d.bytes([]byte(r.txn.What))
	for _, c := range r.txn.If {
		d.bytes([]byte(c.Key))
		d.word(uint64(c.Rev))
		d.bytes(c.Value)
	}
	for _, op := range r.txn.Then {
		d.word(uint64(op.Kind))
		d.bytes([]byte(op.Key))
		d.bytes(op.Value)
	}
}

// value writes what a field of kvlog holds.
func (d *digest) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Int64:
		d.word(uint64(v.Int()))
	case reflect.Uint64:
		d.word(v.Uint())
	case reflect.String:
		d.bytes([]byte(v.String()))
	case reflect.Slice:
		d.bytes(v.Bytes())
	case reflect.Array:
		for i := range v.Len() {
			d.value(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			d.value(v.Field(i))
		}
	case reflect.Map:
		entries := v.MapKeys()
		d.unordered(len(entries), func(d *digest, i int) {
			d.value(entries[i])
			d.value(v.MapIndex(entries[i]))
		})
	case reflect.Pointer:
		if d.flags(v.IsNil()); !v.IsNil() {
			d.value(v.Elem())
		}
	case reflect.Interface:
		d.flags(v.IsNil())
	default:
		panic("appends: a field of kvlog of another kind: " + v.String())
	}
}
