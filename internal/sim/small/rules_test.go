package small

import (
	"reflect"
	"testing"

	"github.com/pawlproject/pawl/internal/locktable"
)

// Every rule is about a field that there is: a rule that a rename leaves behind would
// tell states apart that are the same.
func TestRulesAreAboutFieldsThatExist(t *testing.T) {
	fields := map[string]map[string]bool{}
	met := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(x reflect.Type) {
		if met[x] {
			return
		}
		met[x] = true
		switch x.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Array:
			visit(x.Elem())
		case reflect.Map:
			visit(x.Key())
			visit(x.Elem())
		case reflect.Struct:
			if fields[x.Name()] == nil {
				fields[x.Name()] = map[string]bool{}
			}
			for i := range x.NumField() {
				fields[x.Name()][x.Field(i).Name] = true
				visit(x.Field(i).Type)
			}
		}
	}
	visit(reflect.TypeFor[World]())
	visit(reflect.TypeFor[locktable.Granted]()) // behind an interface
	for name, of := range rules {
		for field := range of {
			if !fields[name][field] {
				t.Errorf("there is no field %s.%s", name, field)
			}
		}
	}
}
