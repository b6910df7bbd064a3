package small

import (
	"reflect"
	"time"

	"github.com/pawlproject/pawl/internal/locktable"
)

const suspectTurns = locktable.SuspectTurns

var (
	serverType  = reflect.TypeFor[server]()
	sessionType = sessionOf(reflect.TypeFor[locktable.Table]())
)

// sessionOf is the type of the lock table's sessions, which has no name here.
func sessionOf(table reflect.Type) reflect.Type {
	f, _ := table.FieldByName("sessions")
	return f.Type.Elem().Elem()
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
