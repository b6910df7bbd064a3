package main

import (
	"os"
	"testing"
)

// A lease whose line cannot be printed is nobody's: it is let go at once, unless its
// request id finds it again.
func TestUnprintableLeaseIsReleased(t *testing.T) {
	s := serve(t, "--store", "memory")
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = full.Close() }()
	read, unread, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unread.Close() }()
	_ = read.Close()
	for _, x := range []struct {
		name string
		out  *os.File
		kept int
		args []string
	}{{"lost", full, 0, nil}, {"unread", unread, 0, nil}, {"found", full, 1, []string{"--request-id", "r1"}}} {
		cmd := s.command(append([]string{"acquire", x.name, "--ttl", "5m"}, x.args...)...)
		cmd.Stdout = x.out
		if err := cmd.Run(); err == nil {
			t.Errorf("%s: what could not be printed is a success", x.name)
		}
		if n := len(s.show(x.name).Holders); n != x.kept {
			t.Errorf("%s has %d holders, expected %d", x.name, n, x.kept)
		}
	}
	s.acquire("lost")
	s.acquire("found", "--request-id", "r1", "--ttl", "5m")
}
