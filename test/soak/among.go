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
)

// manner is how a server of several is stopped.
type manner string

const (
	// killActive: SIGKILL to the active server, whose member leads as a rule.
	killActive manner = "active server killed"
	killOther  manner = "another one killed"
	stopActive manner = "active server stopped"
	stopOther  manner = "another one stopped"
)

// lateMax is how long behind a stop a pause is looked for that begins late.
const lateMax = time.Second

// manners are taken in turn.
var manners = []manner{killActive, killOther, stopActive, killActive, stopOther, killOther}

// newServers returns servers that keep one cell, each in a folder of its own.
func newServers(binary, folder string, n int) (all []*server, err error) {
	var peers []string
	for i := range n {
		of := folder
		if n > 1 {
			of = filepath.Join(folder, fmt.Sprintf("n%d", i+1))
			if err := os.Mkdir(of, 0o700); err != nil {
				return all, err
			}
			peer, err := freeAddress()
			if err != nil {
				return all, err
			}
			peers = append(peers, fmt.Sprintf("n%d=http://%s", i+1, peer))
		}
		s, err := newServer(binary, of)
		if err != nil {
			return all, err
		}
		all = append(all, s)
	}
	for i, s := range all {
		if n > 1 {
			s.args = []string{"--node", fmt.Sprintf("n%d", i+1), "--peers", strings.Join(peers, ",")}
		}
	}
	return all, nil
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

// killAmong stops one of several servers after the other, in all manners, and starts it
// again when the others have gone on.
func (s *soak) killAmong(ctx context.Context, kills int) error {
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
	s.pauses = map[manner][]time.Duration{}
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
}

func (s *soak) stopOne(ctx context.Context, t *turns, how manner) error {
	active, err := s.active(ctx)
	if err != nil {
		return err
	}
	srv := s.servers[active]
	if how == killOther || how == stopOther {
		srv = s.servers[(active+1+rand.IntN(len(s.servers)-1))%len(s.servers)]
	}
	s.shutGate()
	s.pause(ctx, upTo(20*time.Millisecond))
	s.sample()
	if _, err := t.after(ctx, s.now()); err != nil {
		return err
	}
	t.begin()
	if how == stopActive || how == stopOther {
		ending, stop := context.WithTimeout(ctx, readyMax)
		defer stop()
		err = srv.stop(ending)
	} else {
		err = srv.kill()
		s.kills++
	}
	if err != nil {
		return err
	}
	s.openGate()
	// Long enough for a pause that comes late to be seen.
	s.pause(ctx, lateMax)
	pause, err := t.after(ctx, s.now())
	if err != nil {
		return fmt.Errorf("%s: %w", how, err)
	}
	s.pauses[how] = append(s.pauses[how], pause)
	return srv.start()
}

// allReady waits until every server is.
func (s *soak) allReady(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, readyMax)
	defer stop()
	for _, srv := range s.servers {
		for !srv.answers(ctx, "/readyz", "") {
			select {
			case <-srv.ended:
				return srv.failed()
			case <-ctx.Done():
				return fmt.Errorf("a server was not ready within %v; its log ends with\n%s", readyMax, srv.lastWords())
			default:
				s.pause(ctx, errorPause)
			}
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
	for _, how := range slices.Compact(slices.Sorted(slices.Values(manners))) {
		all := slices.Sorted(slices.Values(s.pauses[how]))
		if n := len(all); n > 0 {
			at := func(i int) time.Duration { return all[i].Round(time.Millisecond) }
			fmt.Fprintf(s.out, "to the next grant, %s: %d times, p50 %v, p99 %v, longest %v\n", how, n, at(n/2), at((n*99+99)/100-1), at(n-1))
		}
	}
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
