package rest

import (
	"context"
	"errors"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
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

// DrillBody tells who did not live through a drill.
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

// DrillOf is how long a drill goes on, as the status has it; nil: none is held.
func DrillOf(left time.Duration) *Duration {
	if left <= 0 {
		return nil
	}
	d := Duration(max(left.Round(time.Millisecond), time.Millisecond))
	return &d
}

func (s *handlers) drill(ctx context.Context, _ *empty, in *drillRequest) (*body[DrillBody], error) {
	r, err := s.cell.Drill(ctx, time.Duration(*in.For))
	if err != nil {
		return nil, s.refusal(err)
	}
	return &body[DrillBody]{drillBody(r)}, nil
}

func drillBody(r cell.DrillReport) DrillBody {
	b := DrillBody{
		Lasted: Duration(r.Lasted.Round(time.Millisecond)), Sessions: r.Sessions, Returned: r.Returned, Lost: []DrillLossBody{}, LostCount: r.LostCount,
		Rides: []DrillRideBody{}, RideCount: r.RideCount, Missing: r.Missing,
	}
	for _, e := range r.Lost {
		b.Lost = append(b.Lost, DrillLossBody{Holder: e.Handle, Label: e.Label, Identity: e.Identity, Leases: e.Leases, Names: named(e.Names)})
	}
	for _, e := range r.Rides {
		b.Rides = append(b.Rides, DrillRideBody{Holder: e.Handle, Label: e.Label, Identity: e.Identity, Rode: Duration(e.Rode.Round(time.Millisecond)), Names: named(e.Names)})
	}
	return b
}

// named are names as a list that is there, though it be empty.
func named(names []string) []string { return append([]string{}, names...) }
