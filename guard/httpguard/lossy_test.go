package httpguard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/httpguard"
)

// network loses, delays and repeats the requests of one schedule, and loses their answers.
type network struct {
	next http.RoundTripper
	mu   sync.Mutex
	rnd  *rand.Rand
	late []func()
	wg   sync.WaitGroup
}

var errLost = errors.New("test: lost on the way")

// RoundTrip implements http.RoundTripper.
func (n *network) RoundTrip(r *http.Request) (*http.Response, error) {
	var text []byte
	if r.Body != nil {
		var err error
		if text, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	send := func(ctx context.Context) (*http.Response, error) {
		again := r.Clone(ctx)
		again.Body, again.GetBody = io.NopCloser(strings.NewReader(string(text))), nil
		again.ContentLength = int64(len(text))
		return n.next.RoundTrip(again)
	}
	discard := func() {
		res, err := send(context.WithoutCancel(r.Context()))
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
	}
	n.mu.Lock()
	fate := n.rnd.IntN(12)
	if fate <= 2 {
		n.late = append(n.late, discard)
	}
	n.mu.Unlock()
	switch fate {
	case 0, 1, 3: // delayed, or dropped
		return nil, guardUnknown(errLost)
	case 4: // the answer is lost
		discard()
		return nil, guardUnknown(errLost)
	case 5: // the connection is cut while the request is under way
		ctx, cut := context.WithCancel(r.Context())
		n.wg.Go(cut)
		res, err := send(ctx)
		if err == nil {
			res.Body.Close()
		}
		return nil, guardUnknown(errLost)
	}
	return send(r.Context()) // and once more later, with fate 2
}

// guardUnknown is what a connection that broke says.
func guardUnknown(err error) error { return fmt.Errorf("%w: %w", guard.ErrUnknown, err) }

// arrive delivers one of the late requests, beside what goes on.
func (n *network) arrive() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.late) > 0 {
		i := n.rnd.IntN(len(n.late))
		f := n.late[i]
		n.late = append(n.late[:i], n.late[i+1:]...)
		n.wg.Go(f)
	}
}

// schedule is one history of three holders of a resource.
type schedule struct {
	w     *world
	name  string
	net   *network
	shown atomic.Uint64 // the highest token that has been sent
	did   int
}

// run returns what is wrong.
func (s *schedule) run(ctx context.Context) error {
	client, err := httpguard.NewClient(s.w.front, s.net)
	if err != nil {
		return err
	}
	type claim struct {
		token guard.Token
		read  int
	}
	var claims []claim
	token := guard.Token(1)
	for i := range 9 {
		s.net.mu.Lock()
		kind, old := s.net.rnd.IntN(6), guard.Token(s.net.rnd.IntN(3))
		s.net.mu.Unlock()
		s.net.arrive()
		f := guard.Fence{Resource: s.name, Token: token, Cell: "test-00000000000000aa"}
		switch kind {
		case 0: // the next holder
			token++
			f.Token = token
			s.shown.Store(uint64(token))
			if err = client.Claim(ctx, f); err == nil {
				list, _ := s.w.lists.read(ctx, s.name)
				claims = append(claims, claim{token, len(list)})
			}
		case 1: // one that was overtaken
			f.Token = max(1, token-min(old, token-1))
			fallthrough
		default:
			s.shown.Store(max(s.shown.Load(), uint64(f.Token)))
			err = s.append(ctx, f, i)
		}
		switch stale, ok := errors.AsType[*guard.StaleError](err); {
		case err == nil:
			s.did++
		case ok && (stale.Seen <= f.Token || uint64(stale.Seen) > s.shown.Load()):
			return fmt.Errorf("refused wrongly: %w", err)
		case !ok && !errors.Is(err, guard.ErrUnknown):
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	for range 32 {
		s.net.arrive()
	}
	s.net.wg.Wait()
	list, _ := s.w.lists.read(ctx, s.name)
	last := guard.Token(0)
	for i, text := range list {
		var token guard.Token
		var step int
		if _, err := fmt.Sscanf(text, "%d.%d", &token, &step); err != nil {
			return err
		}
		if token < last {
			return fmt.Errorf("stale accepted: %q", list)
		}
		last = token
		for _, c := range claims {
			if i >= c.read && token < c.token {
				return fmt.Errorf("stale accepted: %q landed after the claim of %d had read %d entries: %q", text, c.token, c.read, list)
			}
		}
	}
	return nil
}

func (s *schedule) append(ctx context.Context, f guard.Fence, step int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.w.front+"/?list="+s.name, strings.NewReader(fmt.Sprintf("%d.%d", f.Token, step)))
	if err != nil {
		return err
	}
	res, err := httpguard.Transport(s.net, lease{f, ctx}).RoundTrip(req)
	if err != nil {
		if errors.Is(err, errLost) {
			return guardUnknown(err)
		}
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return guardUnknown(err)
	}
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}

// Many schedules over a bad network: nothing overtaken is accepted, and nothing is refused
// that was not.
func TestLossySchedules(t *testing.T) {
	schedules := 10_000
	if testing.Short() {
		schedules = 300
	}
	w := newWorld(t, asProxy, &httpguard.Memory{}, httpguard.Options{Wait: time.Minute})
	next := &http.Transport{MaxIdleConnsPerHost: 64}
	defer next.CloseIdleConnections()
	var done, did atomic.Int64
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < schedules; i += 8 {
				s := &schedule{w: w, name: fmt.Sprintf("s%d", i), net: &network{next: next, rnd: rand.New(rand.NewPCG(uint64(i), 1))}}
				s.shown.Store(1)
				if err := s.run(t.Context()); err != nil {
					t.Errorf("schedule %d: %v", i, err)
					return
				}
				done.Add(1)
				did.Add(int64(s.did))
			}
		})
	}
	wg.Wait()
	s := w.gate.Stats()
	t.Logf("%d schedules, %d operations done, %d stale, %d drains", done.Load(), did.Load(), s.Stale, s.Drains)
	if done.Load() != int64(schedules) || did.Load() == 0 || s.Stale == 0 {
		t.Errorf("%d of %d schedules, %+v", done.Load(), schedules, s)
	}
}
