package trace

import (
	"context"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/guard"
)

// Way is how an acquire goes to the server.
type Way int

// The ways.
const (
	ByStream Way = iota // the stream of a session, as the SDK does
	ByCalls             // unary calls
	OverHTTP            // the HTTP interface of the active server
)

// Options say what is acquired, how, and how often.
type Options struct {
	Name string
	// TTL is that of the session, 0: the default of its way; Wait is how long to wait
	// for the turn, 0: one try.
	TTL, Wait time.Duration
	Way       Way
	Times     int // at least 1
}

// Trace is a trace from its first acquire to its table.
type Trace struct {
	Options
	rooms []Room
	all   []lap
}

// lap is an acquire that was followed: how long it was in each room, and in all.
type lap struct {
	token guard.Token
	each  []time.Duration
	total time.Duration
}

// way is one to a lease and its release.
type way struct {
	once func(ctx context.Context) (lap, error)
	end  func()
}

// answers says at once, and in the words of the other commands, when nobody
// serves. What it returns begins with the server that answered.
func answers(ctx context.Context, cell client.Target) (client.Target, *linkpb.StatusResponse, error) {
	c := cell.Client()
	defer c.Close()
	var told *linkpb.StatusResponse
	err := c.Read(ctx, 0, func(ctx context.Context, l linkpb.LinkClient, _ bool) (err error) {
		told, err = l.Status(ctx, &linkpb.StatusRequest{})
		return err
	})
	return c.AnsweredFirst(), told, err
}

// Follow acquires and releases a name, one time after the other, and returns
// where the acquires were for how long. The error has an exit code.
func Follow(ctx context.Context, cell client.Target, o Options) (*Trace, error) {
	cell, told, err := answers(ctx, cell)
	if err != nil {
		return nil, err
	}
	t := &Trace{Options: o, rooms: Rooms(o.Way)}
	var w way
	switch o.Way {
	case ByCalls:
		w = t.byCalls(cell)
	case OverHTTP:
		w, err = t.overHTTP(cell, told)
	default:
		w, err = t.overStream(ctx, cell)
	}
	if err != nil {
		return nil, err
	}
	defer w.end()
	for range o.Times {
		x, err := w.once(ctx)
		if err != nil {
			return nil, err
		}
		t.all = append(t.all, x)
	}
	return t, nil
}

// errNotTraced is the end of a trace that the server said nothing of.
func errNotTraced() error {
	return exit.Failed(exit.CodeUnavailable, "the server does not tell where a request has been; it may be older than this program, or follow too many at the same time")
}
