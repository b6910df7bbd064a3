package small

import (
	"reflect"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

const suspectTurns = locktable.SuspectTurns

var (
	serverType  = reflect.TypeFor[server]()
	coreType    = fieldOf(reflect.TypeFor[cell.Core](), "core").Elem()
	sessionType = fieldOf(fieldOf(reflect.TypeFor[locktable.Table](), "sessions"), "").Elem()
)

// fieldOf is the type of a field, or without a name that of a map's values. A
// field that was renamed panics when the program starts.
func fieldOf(t reflect.Type, name string) reflect.Type {
	if name == "" {
		return t.Elem()
	}
	f, ok := t.FieldByName(name)
	if !ok {
		panic("small: " + t.String() + " has no " + name)
	}
	return f.Type
}

// bases takes from a server what its times and numbers are compared with.
func (d *digest) bases(v reflect.Value) {
	d.low, d.turn, d.suspectsTurn = 0, 0, 0
	core := v.FieldByName("core").Field(0)
	if core.IsNil() {
		return
	}
	core = core.Elem()
	d.low = time.Duration(core.FieldByName("time").FieldByName("low").Int())
	d.turn = core.FieldByName("turn").Uint()
	d.suspectsTurn = core.FieldByName("table").Elem().FieldByName("suspects").FieldByName("turn").Uint()
}
