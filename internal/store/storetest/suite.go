package storetest

import (
	"context"
	"testing"
)

// T is what a test of the suite needs of a testing.T.
type T interface {
	Helper()
	Context() context.Context
	Cleanup(f func())
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	// Fatalf does not return.
	Fatalf(format string, args ...any)
}

// Test is one promise of the seam.
type Test struct {
	Name string
	// Needs is what the place must be able to do; 0: nothing special.
	Needs Need
	// Long: it writes so much that Run leaves it out under -short.
	Long bool
	Run  func(t T, p *Place)
}

// Need is an ability of a Place, as a set of bits.
type Need int

// The abilities.
const (
	// NeedSave: the state can be saved and set back.
	NeedSave Need = 1 << iota
	// NeedFull: the store can be told to refuse writes.
	NeedFull
)

func (n Need) String() string {
	return map[Need]string{NeedSave: "setting back the state of the store", NeedFull: "having the store refuse writes"}[n]
}

// can reports whether p has every ability in n.
func (p *Place) can(n Need) bool {
	return (n&NeedSave == 0 || p.Save != nil) && (n&NeedFull == 0 || p.SetFull != nil)
}

// Tests is the whole contract.
func Tests() []Test {
	return append(append(append(append(append(append(append([]Test(nil),
		tenureTests...), orderTests...), lateTests...), damageTests...), snapshotTests...), limitTests...), followTests...)
}

// Run puts the store in newPlace through the contract; each test gets an empty
// place.
func Run(t *testing.T, newPlace func(t *testing.T) *Place) {
	for _, test := range Tests() {
		t.Run(test.Name, func(t *testing.T) {
			p := newPlace(t)
			if test.Long && testing.Short() {
				t.Skip("long where writes are real")
			}
			if !p.can(test.Needs) {
				t.Skipf("it takes %v, which this place does not offer", test.Needs)
			}
			test.Run(t, p)
		})
	}
}
