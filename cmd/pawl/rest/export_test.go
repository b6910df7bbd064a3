package rest

import "github.com/pawlproject/pawl/internal/locktable"

// DecodeStrict is decodeStrict.
var DecodeStrict = decodeStrict

// Reasons are the reasons that a problem can have, with their statuses.
func Reasons() map[string]int {
	all := map[string]int{}
	for reason, status := range statusOf {
		if reason != locktable.Cancelled { // it comes out as unavailable
			all[string(reason)] = status
		}
	}
	return all
}
