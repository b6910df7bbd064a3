package runner

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
)

// A lease rides for as long as the server granted. What is less than was asked for is
// told when the command begins.
func TestRideAsGranted(t *testing.T) {
	for _, tc := range []struct {
		asked, granted time.Duration
		says           string
	}{
		{time.Hour, time.Hour, ""},
		{0, 0, ""},
		{time.Hour, time.Minute, "the server grants a ride of 1m0s at most, and --ride-through is 1h0m0s"},
		{time.Hour, 0, "the server grants no ride"},
	} {
		v := &Options{Mode: flags.Mode{RideThrough: flags.Duration{Value: tc.asked}}}
		r := &running{Options: v, words: &words{lines: make(chan string, 4)}}
		r.agree(tc.granted)
		close(r.words.lines)
		var said []string
		for line := range r.words.lines {
			said = append(said, line)
		}
		if text := strings.Join(said, ""); !strings.Contains(text, tc.says) || (text == "") != (tc.says == "") {
			t.Errorf("%v granted of %v: it says %q", tc.granted, tc.asked, text)
		}
		if r.mayRide() != (tc.granted > 0) || r.rideThrough() != tc.granted {
			t.Errorf("%v granted of %v: it rides for %v", tc.granted, tc.asked, r.rideThrough())
		}
	}
}
