package small

import (
	"reflect"
	"slices"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

const suspectTurns = locktable.SuspectTurns

var (
	serverType  = reflect.TypeFor[server]()
	sessionType = typeIn(reflect.TypeFor[locktable.Table](), "sessions").Elem().Elem()
	agendaType  = typeIn(reflect.TypeFor[locktable.Table](), "due")
)

// typeIn is the type of a field, which has no name here.
func typeIn(t reflect.Type, name string) reflect.Type {
	f, _ := t.FieldByName(name)
	return f.Type
}

// ranks takes from an agenda in which order its entries were made.
func (d *digest) ranks(agenda reflect.Value) {
	items := agenda.FieldByName("items")
	d.orders = d.orders[:0]
	for i := range items.Len() {
		d.orders = append(d.orders, items.Index(i).FieldByName("order").Uint())
	}
	slices.Sort(d.orders)
}

// bases takes from a server what its times and numbers are compared with.
func (d *digest) bases(v reflect.Value) {
	d.low, d.turn, d.suspectsTurn = 0, 0, 0
	core := v.FieldByName("core")
	if core.IsNil() {
		return
	}
	core = core.Elem()
	d.low = time.Duration(core.FieldByName("time").FieldByName("low").Int())
	d.turn = core.FieldByName("turn").Uint()
	d.suspectsTurn = core.FieldByName("table").Elem().FieldByName("suspects").FieldByName("turn").Uint()
}
