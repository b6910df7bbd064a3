package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/httpguard"
	"github.com/pawlproject/pawl/internal/testwait"
)

const (
	// killsEnv sets how often the proxy is ended; without it, killsDefault times.
	killsEnv     = "PAWL_GUARD_KILLS"
	killsDefault = 10
	// killLinger is the proxy's --max-upstream, and killGivesUp when the judge gives a
	// request up, counted from before it was sent: so the upstream keeps its promise also on
	// a machine that is slow.
	killLinger  = time.Second
	killGivesUp = killLinger / 2
	killMost    = 3 * killLinger / 2 // the longest life of a proxy under load
	killWorkers = 6
	killNames   = 3
)

// judge is the upstream of a proxy that is killed again and again. It knows every claim that
// was answered, and holds what it is told to do against them.
type judge struct {
	mu    sync.Mutex
	rnd   *rand.Rand
	names [killNames]judged
	sent  map[string]time.Time // the requests, by id
	came  map[string]int
	did   map[string]int
	// told are the requests that were refused: they must never come.
	told  map[string]error
	wrong []string
	// Counts of what happened, so that a run in which nothing did is no success.
	applied, claims, stale, busy, unknown int
}

// judged is one resource.
type judged struct {
	next guard.Token // the highest that was given out
	last guard.Token // of the last effect, or of the highest claim that was answered
	why  string      // which of them
}

func (j *judge) bad(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

// chance is true once in n times.
func (j *judge) chance(n int) bool { return j.below(n) == 0 }

func (j *judge) below(n int) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rnd.IntN(n)
}

// ServeHTTP takes a request's effect after a while. Some connections break, before the effect
// or after it.
func (j *judge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	f, err := httpguard.Parse(r.Header.Get(httpguard.TokenHeader))
	_, _ = io.Copy(io.Discard, r.Body)
	j.mu.Lock()
	if j.came[id]++; j.came[id] > 1 {
		j.bad("%s came %d times", id, j.came[id])
	}
	if err != nil {
		j.bad("%s came without its fence: %v", id, err)
	}
	delay := time.Duration(j.rnd.IntN(20)) * time.Millisecond
	if j.rnd.IntN(10) == 0 {
		delay = time.Duration(j.rnd.Int64N(int64(killGivesUp)))
	}
	fate := j.rnd.IntN(30)
	j.mu.Unlock()
	if fate == 0 { // the connection breaks, and the effect comes all the same
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.Close()
		}
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	<-timer.C
	j.apply(id, f)
	if fate == 1 {
		panic(http.ErrAbortHandler)
	}
}

// apply is the effect.
func (j *judge) apply(id string, f guard.Fence) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if time.Since(j.sent[id]) > killGivesUp {
		return
	}
	n, err := strconv.Atoi(f.Resource)
	if err != nil {
		j.bad("%s: resource %q", id, f.Resource)
		return
	}
	at := &j.names[n]
	if f.Token < at.last {
		j.bad("stale accepted: %s took effect under %v, after %s", id, f.Token, at.why)
		return
	}
	at.last, at.why = f.Token, "the effect of "+id+" under "+f.Token.String()
	j.applied++
	j.did[id]++
}

// one sends a request or a claim to the proxy, and notes what it was told.
func (j *judge) one(ctx context.Context, front string, next *http.Transport, id string) {
	j.mu.Lock()
	n := j.rnd.IntN(killNames)
	at := &j.names[n]
	claim := j.rnd.IntN(6) == 0
	if claim || at.next == 0 || j.rnd.IntN(6) == 0 { // some take over without a claim
		at.next++
	}
	f := guard.Fence{Resource: strconv.Itoa(n), Token: at.next, Cell: "c"}
	if !claim {
		f.Token -= min(f.Token-1, guard.Token(max(0, j.rnd.IntN(6)-3))) // a holder that was overtaken
	}
	long := j.rnd.IntN(8) == 0
	j.sent[id] = time.Now()
	j.mu.Unlock()
	if claim {
		client, err := httpguard.NewClient(front, next)
		if err == nil {
			err = client.Claim(ctx, f)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if err == nil {
			j.claims++
			if f.Token > at.last {
				at.last, at.why = f.Token, "the claim "+id+" of "+f.Token.String()+" was answered"
			}
		}
		j.count(id, err)
		return
	}
	text := "x"
	if long { // more than the proxy receives before it lets a request in
		text = strings.Repeat("x", 100<<10)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, front+"/?id="+id, strings.NewReader(text))
	if err == nil {
		req.Header.Set("Idempotency-Key", id) // net/http would send it again
		var res *http.Response
		if res, err = httpguard.Transport(next, proxyLease{f, ctx}).RoundTrip(req); err == nil {
			if _, err = io.Copy(io.Discard, res.Body); err != nil {
				err = fmt.Errorf("%w: %w", guard.ErrUnknown, err)
			}
			res.Body.Close()
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	switch j.count(id, err) {
	case nil:
		if j.came[id] != 1 {
			j.bad("%s was answered, and came %d times", id, j.came[id])
		}
	case guard.ErrStale, httpguard.ErrBusy, context.Canceled: // the last: it was not sent
		j.told[id] = err
	}
}

// count counts what one was told, and returns which of guard's errors it is.
func (j *judge) count(id string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, guard.ErrUnknown):
		j.unknown++
		return guard.ErrUnknown
	case errors.Is(err, guard.ErrStale):
		j.stale++
		return guard.ErrStale
	case errors.Is(err, httpguard.ErrBusy):
		j.busy++
		return httpguard.ErrBusy
	case errors.Is(err, context.Canceled):
		return context.Canceled
	}
	j.bad("%s was told %v", id, err)
	return err
}

// load sends until the proxy has ended, and returns when all of it was answered.
func (j *judge) load(t *testing.T, p *proxied, round int, over *atomic.Bool) (wait func()) {
	var wg sync.WaitGroup
	for worker := range killWorkers {
		wg.Go(func() {
			next := &http.Transport{MaxIdleConnsPerHost: 1}
			defer next.CloseIdleConnections()
			for i := 0; !over.Load(); i++ {
				// A caller may go away in the middle.
				ctx, cancel := context.WithCancel(t.Context())
				if j.chance(20) {
					timer := time.AfterFunc(time.Duration(j.below(20))*time.Millisecond, cancel)
					defer timer.Stop()
				}
				j.one(ctx, p.url, next, fmt.Sprintf("%d.%d.%d", round, worker, i))
				cancel()
			}
		})
	}
	return wg.Wait
}

// The proxy is ended at random moments under load, by KILL, by TERM, and while it is paused.
// Nothing that was overtaken takes effect, nothing is sent twice, nothing comes that was
// refused, and no resource stays closed.
func TestGuardProxyKillLoop(t *testing.T) {
	kills := killsDefault
	if text, ok := os.LookupEnv(killsEnv); ok {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s is %q; expected a number above 0", killsEnv, text)
		}
		kills = n
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("%d rounds, seed %d", kills, seed)
	j := &judge{rnd: rand.New(rand.NewPCG(seed, 1)), sent: map[string]time.Time{}, came: map[string]int{}, did: map[string]int{}, told: map[string]error{}}
	service := httptest.NewServer(j)
	t.Cleanup(service.Close)
	state := filepath.Join(t.TempDir(), "state.db")
	start := func() *proxied {
		return guardProxy(t, service.URL, state, "--max-upstream", killLinger.String(), "--drain-timeout", "200ms")
	}
	for round := range kills {
		p, over := start(), new(atomic.Bool)
		wait := j.load(t, p, round, over)
		life := time.NewTimer(time.Duration(j.below(int(killMost))))
		select {
		case <-life.C:
		case <-p.ended:
			t.Errorf("round %d: it ended by itself", round)
		}
		sig := syscall.SIGKILL
		switch j.below(4) {
		case 0:
			sig = syscall.SIGTERM
		case 1:
			_ = p.cmd.Process.Signal(syscall.SIGSTOP) // it runs: it was not ended yet
			if round < killsDefault {
				r := want(t, exit.CodeUnavailable, "guard", "proxy", "--listen", "127.0.0.1:0", "--upstream", service.URL, "--state", state)
				contains(t, r.stderr, "another proxy")
			}
			if j.chance(2) {
				_ = p.cmd.Process.Signal(syscall.SIGCONT)
				life.Reset(time.Duration(j.below(int(killLinger / 4))))
				<-life.C
			}
		}
		over.Store(sig == syscall.SIGTERM)
		code := p.stop(sig)
		over.Store(true)
		wait()
		if sig == syscall.SIGTERM && code != 0 {
			t.Errorf("round %d: TERM ended it with %d:\n%s", round, code, p.text())
		}
		if j.report(t) {
			t.Fatalf("round %d, ended by %v", round, sig)
		}
	}
	// What is new gets in at last, everywhere.
	p := start()
	for n := range j.names {
		client, err := httpguard.NewClient(p.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := guard.Fence{Resource: strconv.Itoa(n), Token: j.names[n].next + 1, Cell: "c"}
		testwait.Until(t, bound, "the resource opens", func() bool { return client.Claim(t.Context(), f) == nil })
	}
	if code := p.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("it stopped with %d:\n%s", code, p.text())
	}
	service.Close()
	j.report(t)
	t.Logf("%d effects, %d claims, %d stale, %d busy, %d unknown; stale accepted: 0 unless said otherwise", j.applied, j.claims, j.stale, j.busy, j.unknown)
	if j.applied == 0 || j.claims == 0 || j.stale == 0 || j.busy == 0 || j.unknown == 0 {
		t.Error("the load was no load")
	}
}

// report tells what is wrong, if anything is.
func (j *judge) report(t *testing.T) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, err := range j.told {
		if j.came[id] != 0 {
			j.bad("%s came, and was told %v", id, err)
		}
	}
	for _, text := range j.wrong {
		t.Error(text)
	}
	return len(j.wrong) > 0
}
