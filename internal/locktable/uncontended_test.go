package locktable

import (
	"fmt"
	"os"
	"reflect"
	"testing"
)

// TestMain sees to it that nothing was written to what all tables share: it
// would be in every lock, and in every lease, of every table.
func TestMain(m *testing.M) {
	code := m.Run()
	if !reflect.DeepEqual(uncontended, &contention{}) || !reflect.DeepEqual(none, &extra{}) {
		fmt.Printf("what tables share was written to: %+v, %+v\n", *uncontended, *none)
		code = 1
	}
	os.Exit(code)
}
