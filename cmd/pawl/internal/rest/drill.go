package rest

import (
	"context"
	"errors"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/wire"
)

type drillRequest struct {
	For *Duration `json:"for" doc:"How long the outage lasts; above 0, at most 1h."`
}

func (b *drillRequest) field(key string, r *reader) error {
	if key != "for" {
		return errUnknownKey
	}
	return given(&b.For, r)
}

func (b *drillRequest) check() error {
	if b.For == nil {
		return errors.New(`"for" is missing`)
	}
	return nil
}

// DrillBody tells which sessions did not live through a drill, and which rode.
type DrillBody struct {
	Lasted    Duration        `json:"lasted" doc:"How long the outage lasted."`
	Sessions  int             `json:"sessions" format:"int32" doc:"Sessions that were open when it began."`
	Returned  int             `json:"returned" format:"int32" doc:"Sessions that were heard from after it, those that rode among them."`
	Lost      []DrillLossBody `json:"lost" doc:"Sessions that did not return within their TTL, or that their clients had given up, the first 256 of them."`
	LostCount int             `json:"lost_count" format:"int32" doc:"How many there are of them."`
	Rides     []DrillRideBody `json:"rides" doc:"Sessions that returned and had leases that rode, the first 256 of them. Only clients that hold a stream tell that."`
	RideCount int             `json:"rides_count" format:"int32" doc:"How many there are of them."`
	Missing   int             `json:"missing" format:"int32" doc:"Sessions that had neither returned nor ended when this was written, the longest TTL after the outage, or 5 minutes."`
}

// DrillLossBody is a session that was lost.
type DrillLossBody struct {
	Holder   string   `json:"holder" doc:"Public handle of the session."`
	Label    string   `json:"label"`
	Identity string   `json:"identity,omitempty"`
	Leases   int      `json:"leases" format:"int32" doc:"How many leases it had when the outage began."`
	Names    []string `json:"names" doc:"The first 8 of their names."`
}

// DrillRideBody is a session whose leases rode.
type DrillRideBody struct {
	Holder   string   `json:"holder" doc:"Public handle of the session."`
	Label    string   `json:"label"`
	Identity string   `json:"identity,omitempty"`
	Rode     Duration `json:"rode" doc:"For how long."`
	Names    []string `json:"names" doc:"The first 8 of the names of its leases that may ride."`
}

// DrillLeft is how long a drill goes on, as the status has it; nil: none is held.
func DrillLeft(left time.Duration) *Duration { return unlessZero(roundUp(left)) }

func (s *handlers) drill(ctx context.Context, _ *empty, in *drillRequest) (*body[DrillBody], error) {
	r, err := s.cell.Drill(ctx, time.Duration(*in.For))
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[DrillBody]{DrillOf(wire.DrillReport(r))}, nil
}

// DrillOf is the report of a drill as the link has it.
func DrillOf(r *linkpb.DrillResponse) DrillBody {
	b := DrillBody{
		Lasted:   Duration(time.Duration(r.GetLastedNano()).Round(time.Millisecond)),
		Sessions: int(r.GetSessions()), Returned: int(r.GetReturned()), Missing: int(r.GetMissing()),
		Lost: []DrillLossBody{}, LostCount: int(r.GetLostCount()),
		Rides: []DrillRideBody{}, RideCount: int(r.GetRidesCount()),
	}
	for _, x := range r.GetLost() {
		b.Lost = append(b.Lost, DrillLossBody{
			Holder: x.GetHolder(), Label: x.GetLabel(), Identity: x.GetIdentity(), Leases: int(x.GetLeases()), Names: named(x.GetNames()),
		})
	}
	for _, x := range r.GetRides() {
		b.Rides = append(b.Rides, DrillRideBody{
			Holder: x.GetHolder(), Label: x.GetLabel(), Identity: x.GetIdentity(),
			Rode: Duration(time.Duration(x.GetRodeNano()).Round(time.Millisecond)), Names: named(x.GetNames()),
		})
	}
	return b
}

// named are names as a list, which is there even when it is empty.
func named(names []string) []string { return append([]string{}, names...) }
