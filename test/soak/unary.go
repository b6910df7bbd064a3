package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
)

// callMax bounds a call without a stream, beside what it is told to wait.
const callMax = 5 * time.Second

// connect comes back at once to a server that comes back.
func connect(address string) (*grpc.ClientConn, error) {
	quick := backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: 100 * time.Millisecond}
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}),
		grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
	)
}

// plain works without a stream, as a caller over HTTP does: a lease has a
// session of its own, a request id makes a repetition harmless.
type plain struct {
	*work
	link linkpb.LinkClient
	name string
	// asked numbers the requests.
	asked int
}

// trusted is how long a holder may count on a TTL.
func trusted(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl)*0.998) - 50*time.Millisecond - readingSlack
}

// refusal is what the server refused with; nil: it did not, the outcome is
// unknown.
func refusal(err error) *linkpb.Refused {
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*linkpb.RefusedDetail); ok && r.GetRefused().GetReason() != linkpb.Reason_REASON_UNAVAILABLE {
			return r.GetRefused()
		}
	}
	return nil
}

func gone(err error) bool { return refusal(err).GetReason() == linkpb.Reason_REASON_GONE }

// run takes leases, and gives them back, renews them for a while, asks for them
// again, or forgets them.
func (p *plain) run(ctx context.Context, id int) {
	p.name = fmt.Sprintf("%splain/%d", prefix, id)
	for ctx.Err() == nil {
		p.asked++
		ask := &linkpb.AcquireRequest{
			Name: p.name, TtlNano: int64(time.Second + upTo(2*time.Second)), WaitNano: int64(upTo(5 * time.Second)),
			RequestId: fmt.Sprintf("%d-%d", id, p.asked),
		}
		l, floor := p.acquire(ctx, ask)
		if l == nil {
			continue
		}
		p.keep(ctx)
		switch rand.IntN(4) {
		case 0: // forgotten: it ends with its session
		case 1:
			p.renewFor(ctx, l, upTo(5*time.Second))
			p.release(ctx, l)
		case 2:
			p.again(ctx, ask, l, floor)
			if rand.IntN(2) == 0 {
				p.release(ctx, l)
			}
		default:
			p.pause(ctx, upTo(300*time.Millisecond))
			p.release(ctx, l)
		}
	}
}

// acquire asks until it is answered, under one request id.
func (p *plain) acquire(ctx context.Context, ask *linkpb.AcquireRequest) (l *linkpb.AcquireResponse, floor uint64) {
	floor = p.floor()
	for ctx.Err() == nil {
		calling, stop := context.WithTimeout(ctx, time.Duration(ask.WaitNano)+callMax)
		sent := p.now()
		l, err := p.link.Acquire(calling, ask)
		stop()
		now := p.now()
		if err == nil {
			p.judge(func(g *ledger) { g.grant(l.Name, l.Token, floor, now, until(l, sent)) })
			return l, floor
		}
		if r := refusal(err); r != nil {
			p.judge(func(g *ledger) { g.see(r.GetHolder().GetToken(), sent) })
			return nil, 0
		}
		p.unknown.Add(1)
		p.pause(ctx, errorPause)
	}
	return nil, 0
}

// until is the deadline of a lease whose request was sent at sent.
func until(l *linkpb.AcquireResponse, sent moment) moment {
	return sent + time.Duration(l.WaitedNano) + trusted(time.Duration(l.TtlNano))
}

// again repeats a request whose answer is there: it must find its own lease.
func (p *plain) again(ctx context.Context, ask *linkpb.AcquireRequest, first *linkpb.AcquireResponse, floor uint64) {
	calling, stop := context.WithTimeout(ctx, callMax)
	defer stop()
	sent := p.now()
	l, err := p.link.Acquire(calling, ask)
	now := p.now()
	switch {
	case err == nil && l.Token == first.Token && l.Lease == first.Lease:
		p.judge(func(g *ledger) { g.promise(l.Token, until(l, sent)) })
	case err == nil:
		p.judge(func(g *ledger) { g.grant(l.Name, l.Token, floor, now, until(l, sent)) })
	case refusal(err) != nil:
		p.judge(func(g *ledger) { g.withdraw(first.Token, now) })
	default:
		p.unknown.Add(1)
	}
}

// renewFor keeps a lease for about d.
func (p *plain) renewFor(ctx context.Context, l *linkpb.AcquireResponse, d time.Duration) {
	for end := p.now() + d; p.now() < end && ctx.Err() == nil; {
		calling, stop := context.WithTimeout(ctx, callMax)
		sent := p.now()
		r, err := p.link.RenewLease(calling, &linkpb.RenewLeaseRequest{Lease: l.Lease})
		stop()
		now := p.now()
		switch {
		case err == nil:
			p.judge(func(g *ledger) { g.promise(l.Token, sent+trusted(time.Duration(r.TtlNano))) })
		case gone(err):
			p.lapsed.Add(1)
			p.judge(func(g *ledger) { g.end(l.Token, now) })
			return
		default:
			p.unknown.Add(1)
		}
		p.pause(ctx, upTo(time.Duration(l.TtlNano)/3))
	}
}

// release gives a lease back, and asks again while the outcome is unknown.
func (p *plain) release(ctx context.Context, l *linkpb.AcquireResponse) {
	start := p.now()
	p.judge(func(g *ledger) { g.release(l.Token, start) })
	for again := false; ctx.Err() == nil; again = true {
		calling, stop := context.WithTimeout(ctx, callMax)
		_, err := p.link.Release(calling, &linkpb.ReleaseRequest{Lease: l.Lease})
		stop()
		now := p.now()
		switch {
		case err == nil:
			p.judge(func(g *ledger) { g.end(l.Token, now); g.released++ })
			return
		case gone(err):
			p.judge(func(g *ledger) {
				if !again {
					g.withdraw(l.Token, now)
				}
				g.end(l.Token, now)
			})
			return
		}
		p.unknown.Add(1)
		p.pause(ctx, errorPause)
	}
}
