package bounds

import (
	"strings"
	"testing"
	"time"
)

func TestValidRide(t *testing.T) {
	for what, c := range map[string]struct {
		claims, shared bool
		names          int
		rideThrough    time.Duration
		wrong          string
	}{
		"none":                        {rideThrough: 0, names: 3, shared: true},
		"the least":                   {claims: true, names: 1, rideThrough: 1},
		"the most":                    {claims: true, names: 1, rideThrough: RideThroughMax},
		"more than the most":          {claims: true, names: 1, rideThrough: RideThroughMax + 1, wrong: "at most 24h was expected"},
		"negative":                    {claims: true, names: 1, rideThrough: -1, wrong: "more than 0"},
		"of one that does not claim":  {names: 1, rideThrough: time.Hour, wrong: "does not claim"},
		"of a shared lease":           {claims: true, shared: true, names: 1, rideThrough: time.Hour, wrong: "shared"},
		"of a lease of several names": {claims: true, names: 2, rideThrough: time.Hour, wrong: "2 names"},
	} {
		err := ValidRide(c.claims, c.shared, c.names, c.rideThrough)
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v; %q was expected", what, err, c.wrong)
		}
	}
}
