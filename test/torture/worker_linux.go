package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
)

// job is a loop of a worker: acquire, work, release.
type job struct {
	name      string
	ttl       time.Duration
	claims    bool
	ride      time.Duration // 0: it does not
	deaf      bool          // it writes on when its lease has ended
	hold      time.Duration // at most
	pauseMost time.Duration
}

// jobs are those of each worker.
func jobs() []job {
	var all []job
	for i := range 3 {
		name := fmt.Sprintf("plain/%d", i)
		// Two contend for each, and each has one for itself.
		all = append(all, job{name: name, ttl: 2 * time.Second, hold: 30 * time.Millisecond, pauseMost: 60 * time.Millisecond})
	}
	all = append(all, job{name: "plain/long", ttl: 3 * time.Second, hold: 6 * time.Second, pauseMost: 100 * time.Millisecond})
	for i := range 3 {
		name := fmt.Sprintf("guarded/%d", i)
		all = append(all, job{name: name, ttl: 4 * time.Second, claims: true, deaf: i == 0, hold: 3 * time.Second, pauseMost: 300 * time.Millisecond})
	}
	for i := range 2 {
		name := fmt.Sprintf("ridden/%d", i)
		all = append(all,
			job{name: name, ttl: 3 * time.Second, claims: true, ride: 10 * time.Second, hold: 8 * time.Second, pauseMost: time.Second},
			job{name: name, ttl: 3 * time.Second, claims: true, hold: 2 * time.Second, pauseMost: time.Second})
	}
	return append(all, job{name: brokenPrefix + "0", ttl: 4 * time.Second, claims: true, deaf: true, hold: 8 * time.Second, pauseMost: 300 * time.Millisecond})
}

const (
	beat = 25 * time.Millisecond
	// acquireMost bounds an acquire, writeMost a write and a release.
	acquireMost, writeMost = 5 * time.Second, 5 * time.Second
	// breakMost is the longest pause between two breaks by force.
	breakMost = 6 * time.Second
)

// worker is a process of jobs.
type worker struct {
	name, folder, pawl string
	servers            []string
	// breakable is the token of a lease that may be broken; 0: none.
	breakable atomic.Uint64
	*recorder
}

func workerMain(args []string) int {
	w := &worker{}
	var servers string
	f := flag.NewFlagSet("worker", flag.ContinueOnError)
	f.StringVar(&w.name, "name", "", "")
	f.StringVar(&servers, "servers", "", "")
	f.StringVar(&w.folder, "folder", "", "")
	f.StringVar(&w.pawl, "pawl", "", "")
	if err := f.Parse(args); err != nil {
		return 64
	}
	w.servers = strings.Split(servers, ",")
	var err error
	if w.recorder, err = newRecorder(w.folder, w.name); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var all sync.WaitGroup
	for i, j := range append(jobs(), job{name: "own/" + w.name, ttl: 2 * time.Second, hold: 20 * time.Millisecond, pauseMost: 20 * time.Millisecond}) {
		all.Go(func() { w.work(ctx, j, fmt.Sprint(i)) })
	}
	all.Go(func() { w.breakByForce(ctx) })
	all.Wait()
	return 0
}

// rest pauses for up to a time, or until the end.
func rest(ctx context.Context, most time.Duration) {
	select {
	case <-time.After(rand.N(most)):
	case <-ctx.Done():
	}
}

// work does a job until the end.
func (w *worker) work(ctx context.Context, j job, who string) {
	var c *pawl.Client
	for c == nil {
		if ctx.Err() != nil {
			return
		}
		dialling, cancel := context.WithTimeout(ctx, acquireMost)
		var err error
		if c, err = pawl.Dial(dialling, w.servers, pawl.Options{TTL: j.ttl, Label: w.name}); err != nil {
			c = nil
			rest(ctx, 100*time.Millisecond)
		}
		cancel()
	}
	defer c.Close() // the server may be gone
	var res *resource
	for j.claims && res == nil {
		if ctx.Err() != nil {
			return
		}
		var err error
		if res, err = openResource(w.folder, j.name); err != nil { // another may be stopped in a write
			fmt.Fprintln(os.Stderr, err)
			rest(ctx, 100*time.Millisecond)
		}
	}
	if res != nil {
		defer res.close()
	}
	for ctx.Err() == nil {
		w.once(ctx, c, j, res, who)
		rest(ctx, j.pauseMost)
	}
}

func (j job) options(res *resource) (all []pawl.AcquireOption) {
	if j.claims {
		all = append(all, pawl.Claim(res))
	}
	if j.ride > 0 {
		all = append(all, pawl.RideThrough(j.ride))
	}
	return all
}

// once acquires, works and releases.
func (w *worker) once(ctx context.Context, c *pawl.Client, j job, res *resource, who string) {
	acquiring, cancel := context.WithTimeout(ctx, acquireMost)
	lease, err := c.Acquire(acquiring, j.name, j.options(res)...)
	cancel()
	if err != nil {
		return
	}
	h := &held{worker: w, job: j, lease: lease, who: who}
	h.note(record{Kind: granted, Rides: j.ride > 0})
	h.promise()
	if strings.HasPrefix(j.name, brokenPrefix) {
		w.breakable.Store(uint64(lease.Token()))
	}
	if j.claims {
		reading, cancel := context.WithTimeout(context.Background(), writeMost)
		h.clerk, err = res.clerk(reading, lease.Fence())
		cancel()
	}
	if err == nil {
		h.hold(ctx, clock.Boottime()+rand.N(j.hold))
	}
	h.note(record{Kind: letGo})
	releasing, cancel := context.WithTimeout(context.Background(), writeMost)
	defer cancel()
	_ = lease.Release(releasing) // the records tell what matters
}

// held is a lease that a job works under.
type held struct {
	*worker
	job
	lease *pawl.Lease
	clerk *clerk
	who   string
	over  bool
	rides bool // now
}

func (h *held) note(r record) {
	r.Name, r.Token, r.Who = h.job.name, uint64(h.lease.Token()), h.who
	h.add(r)
}

// promise notes until when the holder may count on the lease; the clock is read first,
// so that is never later than what the lease says.
func (h *held) promise() {
	at := clock.Boottime()
	left := h.lease.Remaining()
	if left > 0 && h.lease.Context().Err() == nil {
		h.note(record{Kind: promised, At: at, Until: at + left})
	}
}

// hold works until the end of the time, of the lease or of the run.
func (h *held) hold(ctx context.Context, until moment) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for clock.Boottime() < until {
		if h.lease.Context().Err() != nil && !h.over {
			h.over = true
			h.note(record{Kind: ended, Why: fmt.Sprint(context.Cause(h.lease.Context()))})
		}
		if h.over && (!h.deaf || h.clerk == nil) {
			return
		}
		h.promise()
		if rides := h.lease.Riding(); rides != h.rides {
			h.rides = rides
			if rides {
				h.note(record{Kind: rode})
			}
		}
		if h.clerk != nil && !h.write() {
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// write writes once, and reports whether the job goes on. A write that has begun is not
// interrupted, so that its outcome is known.
func (h *held) write() bool {
	writing, cancel := context.WithTimeout(context.Background(), writeMost)
	defer cancel()
	err := h.clerk.write(writing)
	if err == nil {
		h.note(record{Kind: wrote, Balance: h.clerk.balance})
		return true
	}
	h.lease.Overtaken(err)
	if errors.Is(err, guard.ErrStale) {
		h.note(record{Kind: refused})
	} else {
		fmt.Fprintf(os.Stderr, "write %q: %v\n", h.job.name, err)
	}
	return false
}

// breakByForce breaks a lease of this process now and then.
func (w *worker) breakByForce(ctx context.Context) {
	for ctx.Err() == nil {
		rest(ctx, breakMost)
		token := w.breakable.Swap(0)
		if token == 0 {
			continue
		}
		breaking, cancel := context.WithTimeout(ctx, acquireMost)
		cmd := exec.CommandContext(breaking, w.pawl, "break", brokenPrefix+"0", "--token", fmt.Sprint(token), "--reason", "torture", "--now",
			"--servers", strings.Join(w.servers, ","))
		if out, err := cmd.CombinedOutput(); err != nil { // it may have ended, or the cell may be away
			fmt.Fprintf(os.Stderr, "break: %v: %s", err, out)
		} else {
			w.add(record{Kind: broke, Name: brokenPrefix + "0", Token: token})
		}
		cancel()
	}
}
