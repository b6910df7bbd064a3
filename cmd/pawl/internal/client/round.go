package client

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/dialerr"
)

// round asks every server of a cell once, and those that they send it to.
type round struct {
	*Client
	next []string
	// again: a try may have taken effect although its answer was lost.
	again bool
	// What came of it: what the servers that answered said, in their order, why others
	// could not be reached, and whether one answered or took a connection and said nothing.
	said             []string
	nobody           []*dialerr.Error
	answered, silent bool
	// sent tells by whom one was sent to which server; astray: to one that cannot
	// be reached.
	sent   map[string]string
	astray error
	// unanswered are the servers that took a request, or may have, and said nothing.
	unanswered []string
}

func (r *round) begin() {
	r.next = slices.Clone(r.servers)
	r.said, r.nobody, r.answered, r.silent = nil, nil, false, false
	r.sent, r.astray = map[string]string{}, nil
}

// ask does what it is told with the next server; done: err is the outcome, and
// no other server is to be asked.
func (r *round) ask(ctx context.Context, do func(context.Context, linkpb.LinkClient, bool) error) (done bool, err error) {
	server := r.next[0]
	r.next = r.next[1:]
	r.reread()
	conn, err := r.at(server)
	if err != nil {
		return true, err
	}
	attempt, end := context.WithCancelCause(ctx)
	go watch(attempt, conn, end)
	err = do(attempt, linkpb.NewLinkClient(conn), r.again)
	left := errors.Is(context.Cause(attempt), errSilent)
	end(nil)
	refused := exit.RefusalOf(err)
	switch {
	case err == nil:
		r.served = server
		return true, nil
	case ctx.Err() != nil:
		if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
			return true, cause
		}
		if conn.GetState() == connectivity.Connecting {
			r.missed(&dialerr.Error{Server: server, Silent: true, Why: dialerr.SaysNothing})
		} else {
			r.unheard(server)
		}
	case left:
		r.unheard(server)
		r.drop(server)
	case refused.GetReason() == linkpb.Reason_REASON_UNAVAILABLE:
		r.answers(server, refused.GetMessage())
		if to := refused.GetActiveLink(); to != "" && to != server {
			r.next = slices.Insert(r.next, 0, to)
			r.sent[to] = server
		}
	case refused == nil && status.Code(err) == codes.Unavailable:
		if none := dialerr.Of(server, err); none != nil {
			r.missed(none)
		} else {
			r.again = true
			r.answers(server, status.Convert(err).Message())
		}
	case refused == nil && (status.Code(err) == codes.DeadlineExceeded || status.Code(err) == codes.Canceled):
		// The server knows the time limit, too, and may be the first to see it pass.
		r.unheard(server)
	case status.Code(err) == codes.Unauthenticated && r.reread():
		// The credential was replaced while the request waited.
		r.next = slices.Insert(r.next, 0, server)
	default:
		return true, err
	}
	return false, nil
}

// answers notes what a server said that does not serve.
func (r *round) answers(server, text string) {
	r.answered = true
	if line := server + " says: " + text; !slices.Contains(r.said, line) {
		r.said = append(r.said, line)
	}
}

// missed notes that a server could not be reached.
func (r *round) missed(why *dialerr.Error) {
	r.nobody = append(r.nobody, why)
	if by := r.sent[why.Server]; by != "" && !slices.Contains(r.servers, why.Server) {
		why.By = by
		r.astray = why
	}
	if why.Silent {
		r.silent = true
		r.slow[why.Server]++
		r.drop(why.Server)
	}
}

// unheard notes that a server was asked and gave no answer.
func (r *round) unheard(server string) {
	r.again, r.silent = true, true
	if !slices.Contains(r.unanswered, server) {
		r.unanswered = append(r.unanswered, server)
	}
}

func (r *round) drop(server string) {
	_ = r.conns[server].Close() // it came to nothing
	delete(r.conns, server)
}

// late is the error when time is up.
func (r *round) late(ctx context.Context, unknown string) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	if len(r.unanswered) > 0 {
		return exit.Failed(exit.CodeUnavailable, "no answer from %s in time%s", strings.Join(r.unanswered, " and "), unknown)
	}
	if len(r.nobody) > 0 && !r.answered {
		return unreached(r.nobody, r.effect(unknown))
	}
	return r.noServer()
}

// effect is what is to be said of a try whose answer was lost; empty: there was
// none.
func (r *round) effect(unknown string) string {
	if r.again {
		return unknown
	}
	return ""
}

// noServer says why no server serves: what those said that answer, and which ones do not.
func (r *round) noServer() error {
	text := "no server serves: "
	if r.astray != nil {
		return exit.Failed(exit.CodeUnavailable, "%s%v", text, r.astray)
	}
	text += strings.Join(append(slices.Clone(r.said), reasons(r.nobody)...), "; ")
	return exit.Failed(exit.CodeUnavailable, "%s; \"pawl doctor\" says what is missing", text)
}

// errSilent is the cause of an attempt that was given up since its server said
// nothing.
var errSilent = errors.New("the server says nothing")

// watch gives up an attempt whose server has stopped answering, because it is frozen or
// cut off. The request itself may wait for its turn or for the store, so watch sends a
// separate question. Any answer to it will do, even that the question is unknown.
func watch(attempt context.Context, conn *grpc.ClientConn, giveUp context.CancelCauseFunc) {
	for {
		<-After(attempt, silentMax)
		if attempt.Err() != nil {
			return
		}
		if conn.GetState() != connectivity.Ready {
			continue // it has a time of its own
		}
		asking, cancel := context.WithTimeout(attempt, silentMax)
		_, err := health.NewHealthClient(conn).Check(asking, &health.HealthCheckRequest{})
		cancel()
		if status.Code(err) == codes.DeadlineExceeded && attempt.Err() == nil {
			giveUp(errSilent)
			return
		}
	}
}
