package link

import (
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
)

// beat returns how long after now the server's next beat is, on which clients shall
// renew so that renewals come together. Each one that comes alone wakes a server
// that has fallen asleep since the last, and at thousands of sessions that was a
// third of what a renewal cost. Whoever renews is less than one beat early.
//
// 0: a session with this TTL keeps no beat, which would be a good part of what lies
// between two of its renewals.
func beat(now clock.Reading, ttl time.Duration) time.Duration {
	if ttl < cell.PatientTTL {
		return 0
	}
	return linkpb.BeatGap - now.Raw%linkpb.BeatGap
}
