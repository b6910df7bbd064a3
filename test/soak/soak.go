package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
)

const (
	// prefix of every name that is worked on.
	prefix = "soak/"
	// clients of the SDK work beside the one with long-held leases, the last of
	// them with a short TTL.
	clients   = 4
	loops     = 6 // of each client, on names names in all
	names     = 60
	holders   = 4 // of each client
	queues    = 3 // names with a waiter of each client and one more
	longHeld  = 20
	plains    = 10
	ttl       = 30 * time.Second
	ttlBrief  = 4 * time.Second
	ttlLong   = time.Minute
	readyMax  = time.Minute
	servedMax = time.Minute
	emptyMax  = 30 * time.Second
	// workMax bounds the time from an answer after a restart to the next kill.
	workMax = 1500 * time.Millisecond
	// earlyMax bounds the time to a kill that does not wait for an answer.
	earlyMax = 400 * time.Millisecond
	// verboseMax is up to how many kills each has a line of its own.
	verboseMax = 20
)

// soak is one run.
type soak struct {
	*work
	// servers keep one cell; one alone has the embedded store to itself.
	servers []*server
	link    linkpb.LinkClient
	out     io.Writer

	// brief is the TTL of the last client, unary how many callers have no stream.
	brief time.Duration
	unary int

	long     []*pawl.Lease
	served   []*atomic.Int64
	restarts []time.Duration
	kills    int
	pauses   map[manner][]time.Duration
}

// run starts some of the servers, and works on them while disturb does something to
// them. It returns what is wrong, beside what the ledger found.
func (s *soak) run(ctx context.Context, first []*server, disturb func(context.Context) error) error {
	for _, srv := range first {
		if err := srv.start(); err != nil {
			return err
		}
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	all, err := s.dial(ctx)
	defer func() {
		for _, c := range all {
			_ = c.Close() // on the good way it is closed, and that was checked
		}
	}()
	if err != nil {
		return err
	}
	if err := s.holdLong(ctx, all[0]); err != nil {
		return err
	}
	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer stop()
	defer s.openGate()
	s.begin(working, &workers, all[1:])

	if err := disturb(ctx); err != nil {
		return err
	}
	if err := s.allServed(ctx); err != nil {
		return err
	}
	stop()
	workers.Wait()
	return s.finish(ctx, all)
}

func (s *soak) dial(ctx context.Context) (all []*pawl.Client, err error) {
	for i := range clients + 1 {
		o := pawl.Options{TTL: ttl, Label: fmt.Sprintf("client %d", i)}
		switch i {
		case 0:
			o.TTL = ttlLong
		case clients:
			o.TTL = s.brief
		}
		c, err := pawl.Dial(ctx, s.links(), o)
		if err != nil {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

func (s *soak) links() (links []string) {
	for _, srv := range s.servers {
		links = append(links, srv.link)
	}
	return links
}

// stops stops servers so many times.
func (s *soak) stops(ctx context.Context, kills int) error {
	if len(s.servers) > 1 {
		return s.killAmong(ctx, kills)
	}
	return s.killAll(ctx, kills)
}

// holdLong takes what is to be held through all kills.
func (s *soak) holdLong(ctx context.Context, c *pawl.Client) error {
	for i := range longHeld {
		floor := s.floor()
		l, err := c.Acquire(ctx, fmt.Sprintf("%slong/%d", prefix, i))
		if err != nil {
			return err
		}
		s.granted(l, floor)
		s.long = append(s.long, l)
	}
	return nil
}

func (s *soak) begin(ctx context.Context, workers *sync.WaitGroup, all []*pawl.Client) {
	for i, c := range all {
		for range loops {
			workers.Go(func() { s.loop(ctx, c, names) })
		}
		for n := range holders {
			workers.Go(func() { s.holder(ctx, c, fmt.Sprintf("%shold/%d-%d", prefix, i, n)) })
		}
	}
	for q := range queues {
		for i := range len(all) + 1 {
			served := new(atomic.Int64)
			s.served = append(s.served, served)
			workers.Go(func() { s.queue(ctx, all[i%len(all)], fmt.Sprintf("%squeue/%d", prefix, q), served) })
		}
	}
	for i := range s.unary {
		workers.Go(func() { (&plain{work: s.work, link: s.link}).run(ctx, i) })
	}
}

// killAll kills at random moments and starts again at once.
func (s *soak) killAll(ctx context.Context, kills int) error {
	for s.kills < kills {
		if s.kills > 0 && rand.IntN(6) == 0 {
			s.pause(ctx, upTo(earlyMax))
		} else {
			if err := s.catchUp(ctx); err != nil {
				return err
			}
			s.openGate()
			s.pause(ctx, upTo(workMax))
			s.shutGate()
			s.pause(ctx, upTo(20*time.Millisecond))
			s.sample()
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.servers[0].kill(); err != nil {
			return err
		}
		s.kills++
		if err := s.servers[0].start(); err != nil {
			return err
		}
		if kills <= verboseMax || s.kills%10 == 0 {
			s.progress()
		}
	}
	if err := s.catchUp(ctx); err != nil {
		return err
	}
	s.openGate()
	return nil
}

func (s *soak) progress() {
	s.judge(func(l *ledger) {
		fmt.Fprintf(s.out, "%4d kills, %4.0f s: %d granted, %d released, %d survived a kill, %d expired, %d calls of unknown outcome; lost %d, repeated %d, revived %d\n",
			s.kills, s.now().Seconds(), l.granted, l.released, l.survived, s.expired.Load()+s.lapsed.Load(), s.unknown.Load(), l.lost, l.repeated, l.revived)
	})
}

// catchUp waits until the server answers, and compares what it shows.
func (s *soak) catchUp(ctx context.Context) error {
	begun := s.now()
	if err := s.listed(ctx); err != nil {
		return err
	}
	s.restarts = append(s.restarts, s.now()-begun)
	s.sample()
	return nil
}

// listed lists what is held, by the server that answers.
func (s *soak) listed(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, readyMax)
	defer stop()
	for {
		_, err := s.list(ctx)
		if err == nil {
			return nil
		}
		for _, srv := range s.servers {
			if srv.hasEnded() {
				return srv.failed()
			}
		}
		switch ctx.Err() {
		case nil:
		case context.DeadlineExceeded:
			return fmt.Errorf("the server did not answer within %v: %w", readyMax, err)
		default:
			return ctx.Err()
		}
		s.pause(ctx, errorPause)
	}
}

// list looks at all that is held and tells the ledger; n is how many names are.
func (s *soak) list(ctx context.Context) (n int, err error) {
	ctx, stop := context.WithTimeout(ctx, callMax)
	defer stop()
	var look listing
	s.judge(func(l *ledger) { look = l.beginListing(s.now()) })
	r, err := s.link.List(ctx, &linkpb.ListRequest{Prefix: prefix})
	if err != nil {
		return 0, err
	}
	if r.NextPageToken != "" {
		return 0, errors.New("the names do not fit into one page")
	}
	shown := map[string][]uint64{}
	for _, k := range r.Locks {
		for _, h := range k.Holders {
			shown[k.Name] = append(shown[k.Name], h.Token)
		}
	}
	now := s.now()
	s.sample()
	s.judge(func(l *ledger) { l.list(look, shown, now) })
	return len(r.Locks), nil
}

// allServed sees that everybody who stands in a queue gets their turn.
func (s *soak) allServed(ctx context.Context) error {
	var before []int64
	for _, n := range s.served {
		before = append(before, n.Load())
	}
	ctx, stop := context.WithTimeout(ctx, servedMax)
	defer stop()
	for {
		waiting := 0
		for i, n := range s.served {
			// One may have been on its way out of the turn before.
			if n.Load() < before[i]+2 {
				waiting++
			}
		}
		if waiting == 0 {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%d of %d waiters were not served within %v of the last restart", waiting, len(s.served), servedMax)
		}
		s.pause(ctx, errorPause)
	}
}

// finish checks the long-held leases, gives everything back and sees that
// nothing is left.
func (s *soak) finish(ctx context.Context, all []*pawl.Client) error {
	if err := s.listed(ctx); err != nil {
		return fmt.Errorf("list what is held: %w", err)
	}
	var wrong []error
	for _, l := range s.long {
		if err := l.Check(ctx); err != nil {
			s.judge(func(g *ledger) { g.withdraw(uint64(l.Token()), s.now()) })
			wrong = append(wrong, fmt.Errorf("a lease held through all kills: %w", err))
			continue
		}
		s.giveBack(l)
	}
	for _, c := range all {
		if err := c.Close(); err != nil {
			wrong = append(wrong, err)
		}
	}
	empty, stop := context.WithTimeout(ctx, emptyMax)
	defer stop()
	for {
		n, err := s.list(ctx)
		if err == nil && n == 0 {
			break
		}
		if empty.Err() != nil {
			wrong = append(wrong, errors.Join(fmt.Errorf("%v after the last client left the server does not show that all is free, but %d names", emptyMax, n), err))
			break
		}
		s.pause(empty, errorPause)
	}
	wrong = append(wrong, s.stopAll(ctx))
	if s.ledger.survived == 0 {
		wrong = append(wrong, errors.New("no lease had a kill to survive: nothing was shown"))
	}
	return errors.Join(wrong...)
}

// stopAll stops all servers at once, and sees that each ends cleanly.
func (s *soak) stopAll(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, readyMax)
	defer stop()
	ended := make(chan error, len(s.servers))
	for _, srv := range s.servers {
		go func() { ended <- srv.stop(ctx) }()
	}
	var wrong error
	for range s.servers {
		wrong = errors.Join(wrong, <-ended)
	}
	return wrong
}
