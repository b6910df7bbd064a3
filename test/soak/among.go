package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/testport"
)

// manner is how a server of several is stopped.
type manner string

const (
	killActive manner = "active server and leading member killed together"
	// killFollower: SIGKILL to the active server while the member of another leads.
	killFollower manner = "active server killed, whose member does not lead"
	killOther    manner = "member that does not lead killed"
	stopActive   manner = "active server stopped cleanly"
	stopOther    manner = "another one stopped cleanly"
)

const (
	// activeTTL is the servers' active-ttl as a rule, electionTimeout their members' election
	// time-out: a follower that hears nothing waits between one and two of them.
	activeTTL       = 3 * time.Second
	electionTimeout = time.Second
	// leadMax bounds the wait for the active server's member to lead.
	leadMax = 10 * time.Second
	// lateMax is how long behind a stop a pause is looked for that begins late.
	lateMax = time.Second
)

// manners are taken in turn.
var manners = []manner{killActive, killOther, stopActive, killActive, stopOther, killOther}

// limits are what a pause should not be longer than.
var limits = map[manner]time.Duration{
	killActive:   activeTTL + 2*electionTimeout + 500*time.Millisecond,
	killFollower: activeTTL + 2*electionTimeout + 500*time.Millisecond,
	killOther:    500 * time.Millisecond,
	stopActive:   300 * time.Millisecond,
	stopOther:    300 * time.Millisecond,
}

// newServers returns servers that keep one cell, each in a folder of its own.
func newServers(binary, folder string, n int) (all []*server, err error) {
	for i := range n {
		name, of := fmt.Sprintf("n%d", i+1), folder
		var peer string
		if n > 1 {
			of = filepath.Join(folder, name)
			if err := os.Mkdir(of, 0o700); err != nil {
				return all, err
			}
			if peer, err = testport.Free(); err != nil {
				return all, err
			}
		}
		s, err := newServer(binary, of)
		if err != nil {
			return all, err
		}
		s.name, s.peer = name, "http://"+peer
		all = append(all, s)
	}
	if n > 1 {
		for _, s := range all {
			s.among(all)
		}
	}
	return all, nil
}

// among has the server keep its cell with others from its next start on.
func (s *server) among(all []*server) {
	var peers []string
	for _, o := range all {
		peers = append(peers, o.name+"="+o.peer)
	}
	s.args = []string{"--node", s.name, "--peers", strings.Join(peers, ",")}
}

// conns are calls without a stream to one of several servers: to the next one behind one
// that does not answer.
type conns struct {
	all []*grpc.ClientConn
	at  atomic.Int64
}

func connectAll(servers []*server) (*conns, error) {
	c := new(conns)
	for _, s := range servers {
		conn, err := connect(s.link)
		if err != nil {
			c.close()
			return nil, err
		}
		c.all = append(c.all, conn)
	}
	return c, nil
}

func (c *conns) close() {
	for _, conn := range c.all {
		_ = conn.Close() // it is closed once
	}
}

func (c *conns) Invoke(ctx context.Context, method string, in, out any, opts ...grpc.CallOption) error {
	at := c.at.Load()
	if len(c.all) > 1 {
		opts = append(opts, grpc.WaitForReady(false))
	}
	err := c.all[int(at)%len(c.all)].Invoke(ctx, method, in, out, opts...)
	if code := status.Code(err); code == codes.Unavailable || code == codes.DeadlineExceeded {
		c.at.CompareAndSwap(at, at+1)
	}
	return err
}

func (c *conns) NewStream(ctx context.Context, d *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.all[0].NewStream(ctx, d, method, opts...)
}

// turns notes when one client, which does nothing else, was granted a lease.
type turns struct {
	*work
	mu     sync.Mutex
	last   moment
	longer moment // the longest time between two grants since it was asked last
}

func (t *turns) run(ctx context.Context, c *pawl.Client) {
	for ctx.Err() == nil {
		floor := t.floor()
		l, err := c.Acquire(ctx, prefix+"turns")
		if err != nil {
			t.unknown.Add(1)
			t.pause(ctx, errorPause)
			continue
		}
		t.granted(l, floor)
		t.mu.Lock()
		now := t.now()
		t.longer, t.last = max(t.longer, now-t.last), now
		t.mu.Unlock()
		t.giveBack(l)
	}
}

// begin begins to look for the longest pause.
func (t *turns) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.longer = 0
}

// after waits for a grant after some moment, and returns the longest pause since begin.
func (t *turns) after(ctx context.Context, since moment) (time.Duration, error) {
	ctx, stop := context.WithTimeout(ctx, readyMax)
	defer stop()
	for {
		t.mu.Lock()
		last, longer := t.last, t.longer
		t.mu.Unlock()
		if last > since {
			return longer, nil
		}
		if ctx.Err() != nil {
			return 0, fmt.Errorf("nothing was granted within %v: %w", readyMax, ctx.Err())
		}
		t.pause(ctx, errorPause)
	}
}

// taking has a client take turns while do does something.
func (s *soak) taking(ctx context.Context, do func(context.Context, *turns) error) error {
	c, err := pawl.Dial(ctx, s.links(), pawl.Options{TTL: ttl, Label: "turns"})
	if err != nil {
		return err
	}
	defer c.Close()
	working, stop := context.WithCancel(ctx)
	t := &turns{work: s.work}
	var worker sync.WaitGroup
	worker.Go(func() { t.run(working, c) })
	defer worker.Wait()
	defer stop()
	return do(ctx, t)
}

// pauseWhile returns the longest time without a grant while do does something, and for
// a moment after it: long enough for a pause that comes late to be seen.
func (s *soak) pauseWhile(ctx context.Context, t *turns, do func(context.Context) error) (time.Duration, error) {
	if _, err := t.after(ctx, s.now()); err != nil {
		return 0, err
	}
	t.begin()
	if err := do(ctx); err != nil {
		return 0, err
	}
	s.pause(ctx, lateMax)
	return t.after(ctx, s.now())
}

// killAmong stops one of several servers after the other, in all manners, and starts it
// again when the others have gone on.
func (s *soak) killAmong(ctx context.Context, kills int) error {
	s.pauses = map[manner][]time.Duration{}
	return s.taking(ctx, func(ctx context.Context, t *turns) error {
		for i := 0; s.kills < kills; i++ {
			if err := s.allReady(ctx); err != nil {
				return err
			}
			s.openGate()
			s.pause(ctx, upTo(workMax))
			if _, err := s.list(ctx); err != nil && ctx.Err() != nil {
				return err
			}
			if err := s.stopOne(ctx, t, manners[i%len(manners)]); err != nil {
				return err
			}
			s.progress()
		}
		s.openGate()
		return s.allReady(ctx)
	})
}

func (s *soak) stopOne(ctx context.Context, t *turns, how manner) error {
	srv, how, err := s.choose(ctx, how)
	if err != nil {
		return err
	}
	s.shutGate()
	s.pause(ctx, upTo(20*time.Millisecond))
	s.sample()
	pause, err := s.pauseWhile(ctx, t, func(ctx context.Context) (err error) {
		defer s.openGate()
		if how == stopActive || how == stopOther {
			ending, stop := context.WithTimeout(ctx, readyMax)
			defer stop()
			return srv.stop(ending)
		}
		s.kills++
		return srv.kill()
	})
	if err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	s.pauses[how] = append(s.pauses[how], pause)
	return srv.start()
}

// choose returns the server to stop, and the manner: an active server whose member does
// not come to lead in time is killed all the same.
func (s *soak) choose(ctx context.Context, how manner) (*server, manner, error) {
	deadline := s.now() + leadMax
	for {
		active, err := s.active(ctx)
		if err != nil {
			return nil, how, err
		}
		leads := s.leads(ctx)
		decides, led := s.servers[active].name == leads, leads != ""
		switch {
		case how == stopActive, how == killActive && decides:
			return s.servers[active], how, nil
		case how == killActive && s.now() > deadline:
			return s.servers[active], killFollower, nil
		case how != killActive && led:
			var others []*server
			for i, srv := range s.servers {
				if i != active && srv.name != leads {
					others = append(others, srv)
				}
			}
			return others[rand.IntN(len(others))], how, nil
		case s.now() > deadline+readyMax:
			return nil, how, errors.New("no member leads")
		}
		s.pause(ctx, errorPause)
	}
}

// leads is the name of the member that leads; empty: none that is known.
func (s *soak) leads(ctx context.Context) string {
	all, _ := s.members(ctx) // an error knows of none
	for _, m := range all {
		if m.GetLeads() {
			return m.GetName()
		}
	}
	return ""
}

func (s *soak) members(ctx context.Context) ([]*linkpb.Member, error) {
	ctx, stop := context.WithTimeout(ctx, callMax)
	defer stop()
	r, err := s.link.MemberList(ctx, &linkpb.MemberListRequest{})
	return r.GetMembers(), err
}

// allReady waits until every server is.
func (s *soak) allReady(ctx context.Context) error { return s.ready(ctx, s.servers) }

// ready waits until some servers are.
func (s *soak) ready(ctx context.Context, some []*server) error {
	ctx, stop := context.WithTimeout(ctx, readyMax)
	defer stop()
	for _, srv := range some {
		for !srv.answers(ctx, "/readyz", "") {
			switch {
			case srv.hasEnded():
				return srv.failed()
			case ctx.Err() != nil:
				return fmt.Errorf("a server was not ready within %v; its log ends with\n%s", readyMax, srv.lastWords())
			}
			s.pause(ctx, errorPause)
		}
	}
	return nil
}

// active is the number of the active server.
func (s *soak) active(ctx context.Context) (int, error) {
	ctx, stop := context.WithTimeout(ctx, readyMax)
	defer stop()
	for ctx.Err() == nil {
		for i, srv := range s.servers {
			if srv.answers(ctx, "/v1/status", `"active":true`) {
				return i, nil
			}
		}
		s.pause(ctx, errorPause)
	}
	return 0, errors.New("no server is active")
}

func (s *soak) showPauses() {
	for _, how := range []manner{killActive, killFollower, killOther, stopActive, stopOther} {
		all := slices.Sorted(slices.Values(s.pauses[how]))
		if len(all) == 0 {
			continue
		}
		over := 0
		for _, p := range all {
			if p > limits[how] {
				over++
			}
		}
		fmt.Fprintf(s.out, "to the next grant, %s: %d times, p50 %v, p99 %v, max %v; %d over the limit of %v\n",
			how, len(all), at(all, 50), at(all, 99), at(all, 100), over, limits[how])
	}
}

// at is a percentile of sorted times, of which there is one.
func at(all []time.Duration, percent int) time.Duration {
	return all[max((len(all)*percent+99)/100, 1)-1].Round(time.Millisecond)
}

// answersMax bounds one answer over HTTP.
const answersMax = 5 * time.Second

// answers reports whether a path is answered with 200 and a text that holds this one.
func (s *server) answers(ctx context.Context, path, text string) bool {
	ctx, stop := context.WithTimeout(ctx, answersMax)
	defer stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.http+path, nil)
	if err != nil {
		return false
	}
	res, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	return err == nil && res.StatusCode == http.StatusOK && strings.Contains(string(raw), text)
}
