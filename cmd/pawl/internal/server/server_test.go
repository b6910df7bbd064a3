package server

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

func TestCheckAddress(t *testing.T) {
	for _, tc := range []struct {
		address  string
		insecure bool
		want     bool
	}{
		{"127.0.0.1:7420", false, true},
		{"127.9.9.9:1", false, true},
		{"[::1]:7420", false, true},
		{"[::ffff:127.0.0.1]:7420", false, true},
		{"localhost:7420", false, true},
		{"off", false, true},
		{":7420", false, false},
		{"0.0.0.0:7420", false, false},
		{"[::]:7420", false, false},
		{"10.0.0.1:7420", false, false},
		{"locks.example:7420", false, false},
		{"localhost.example:7420", false, false},
		{":7420", true, true},
		{"locks.example:7420", true, true},
		{"", true, false},
		{"7420", true, false},
		{"127.0.0.1:", true, false},
		{"::1:7420", true, false},
		{"[fe80::1%eth0]:7420", true, false},
		{"[fe80::1]:7420", true, false},
		{"[::1%lo]:7420", false, false},
	} {
		closed := "without TLS"
		if tc.insecure {
			closed = ""
		}
		if err := CheckAddress("--listen", tc.address, closed); (err == nil) != tc.want {
			t.Errorf("%q, insecure %t: %v", tc.address, tc.insecure, err)
		}
	}
}

func TestNewCellNeedsPlausibleClock(t *testing.T) {
	released := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		now  time.Time
		want bool
	}{
		{time.Unix(0, 0), false},
		{released.Add(-time.Second), false},
		{released, true},
		{released.AddDate(10, 0, 0), true},
		{released.AddDate(10, 0, 0).Add(time.Second), false},
		{time.Date(2106, 2, 7, 6, 28, 15, 0, time.UTC), false},
	} {
		err := checkClock(tc.now, released)
		if (err == nil) != tc.want || err != nil && !errors.Is(err, ErrClock) {
			t.Errorf("%v: %v", tc.now, err)
		}
	}
	data := t.TempDir()
	for _, store := range []string{StoreEmbedded, StoreMemory} {
		o := Options{Store: store, Data: data, Cell: "default", Clock: wrong{clock.System()}, Released: released}
		if _, err := openStore(context.Background(), &o, nil); !errors.Is(err, ErrClock) {
			t.Errorf("%s: %v", store, err)
		}
	}
	if left, err := os.ReadDir(data); err != nil || len(left) != 0 {
		t.Errorf("it left %v behind (%v)", left, err)
	}
}

// wrong shows the time of a machine without a battery.
type wrong struct{ clock.Clock }

func (wrong) Wall() time.Time { return time.Unix(3600, 0) }

func TestReachedAt(t *testing.T) {
	if got := advertisedAddress(nil, ""); got != "" {
		t.Errorf("no listener is reached at %q", got)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := advertisedAddress(l, ""); got != l.Addr().String() {
		t.Errorf("a listener on the loopback is reached at %q", got)
	}
	wide, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer wide.Close()
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if host, _, err := net.SplitHostPort(advertisedAddress(wide, "")); err != nil || host != name {
		t.Errorf("a listener on every address is reached at %q (%v)", host, err)
	}
}
