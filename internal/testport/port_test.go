package testport_test

import (
	"net"
	"testing"

	"github.com/pawlproject/pawl/internal/testport"
)

// No address is given twice, and a server can listen on each.
func TestFree(t *testing.T) {
	given := map[string]bool{}
	for range 200 {
		address, err := testport.Free()
		if err != nil {
			t.Fatal(err)
		}
		if given[address] {
			t.Fatalf("%s is given twice", address)
		}
		given[address] = true
	}
	for range 3 {
		address, err := testport.Free()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close() // nothing was sent
	}
}
