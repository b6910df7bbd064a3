package cells

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/locktable"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

const activeTTL = time.Second

// cluster is a disk, its servers and what clients believe.
type cluster struct {
	t     *testing.T
	clock clock.Clock
	disk  *memstore.Disk

	mu      sync.Mutex
	rng     *rand.Rand
	servers []*server
	bad     bool
	belief  map[string]*belief
	guards  map[string]guard.State
	seen    map[guard.Token]string
	stats   stats
}

type stats struct{ grants, renewals, releases, lost, crashes, tenures int }

// belief is the latest holder of a name that was told so.
type belief struct {
	token guard.Token
	who   string
	// until is how long it trusts its lease, zero once it has let go.
	until clock.Reading
}

type server struct {
	*cell.Cell
	store *memstore.Store
	stop  context.CancelFunc
	end   chan error
}

func newCluster(t *testing.T, seed uint64) *cluster {
	return &cluster{
		t: t, clock: clock.Bubble(), disk: memstore.NewDisk(), rng: rand.New(rand.NewPCG(seed, 1)),
		servers: make([]*server, 2), belief: map[string]*belief{}, guards: map[string]guard.State{}, seen: map[guard.Token]string{},
	}
}

// draw is a number below n.
func (w *cluster) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rng.IntN(n)
}

func (w *cluster) span(least, most time.Duration) time.Duration {
	return least + time.Duration(w.draw(int(most-least)))
}

// fate spoils some of what a server sends, while the world is bad.
func (w *cluster) fate(kvlog.Txn) faulty.Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.bad {
		return faulty.Fault{}
	}
	f := faulty.Fault{}
	switch w.rng.IntN(40) {
	case 0:
		f.LoseAnswer = true
	case 1:
		f.Refuse = errors.New("refused on the way")
	case 2, 3:
		f.Delay = time.Duration(w.rng.IntN(300)) * time.Millisecond
	case 4:
		f.Delay, f.LoseAnswer = time.Duration(w.rng.IntN(900))*time.Millisecond, true
	}
	return f
}

func (w *cluster) start(i int) {
	s := &server{store: w.disk.Store(memstore.Options{Clock: w.clock, ActiveTTL: activeTTL}), end: make(chan error, 1)}
	s.store.Plan(w.fate)
	node := store.Node{Link: fmt.Sprint(i)}
	node.ID[0] = byte(i + 1)
	s.Cell = cell.New(cell.Options{Store: s.store, Node: node, Clock: w.clock, Name: "world", ActiveTTL: activeTTL})
	ctx, stop := context.WithCancel(w.t.Context())
	s.stop = stop
	go func() { s.end <- s.Run(ctx) }()
	w.mu.Lock()
	w.servers[i] = s
	w.mu.Unlock()
}

// stop ends a server, cleanly or as SIGKILL does.
func (w *cluster) stop(i int, crash bool) {
	w.mu.Lock()
	s := w.servers[i]
	w.servers[i] = nil
	w.stats.tenures += int(s.Stats().Tenures.Load())
	w.mu.Unlock()
	if crash {
		s.store.Crash()
	}
	s.stop()
	if err := <-s.end; err != nil {
		w.t.Errorf("server %d: %v", i, err)
	}
	s.store.Close()
}

// active is the server that says it is, or any.
func (w *cluster) active() *server {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []*server
	for _, s := range w.servers {
		if s != nil {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil
	}
	w.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, s := range all {
		if s.Info().Active {
			return s
		}
	}
	return all[0]
}

// mischief crashes, stops, stalls and restarts servers until ctx ends.
func (w *cluster) mischief(ctx context.Context) {
	for pause(ctx, w.span(200*time.Millisecond, 4*time.Second)) {
		i := w.draw(2)
		switch what := w.draw(5); what {
		case 0, 1:
			w.stop(i, what == 0)
			w.mu.Lock()
			w.stats.crashes++
			w.mu.Unlock()
			if what == 0 {
				pause(ctx, w.span(time.Millisecond, 4*time.Second))
			}
			w.start(i)
		default:
			w.mu.Lock()
			s := w.servers[i]
			w.mu.Unlock()
			s.store.Stall()
			pause(ctx, w.span(10*time.Millisecond, 5*time.Second))
			s.store.Resume()
		}
	}
}

func (w *cluster) setBad(bad bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = bad
}

// pause waits in the bubble's time; false: ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// granted is called when a client is told of a grant: nobody may trust an older one
// of the name at this moment.
func (w *cluster) granted(who, name string, token guard.Token, until clock.Reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.grants++
	if was, ok := w.seen[token]; ok && was != name+" "+who {
		w.t.Errorf("I1: token %d was granted to %q and to %q", token, was, name+" "+who)
	}
	w.seen[token] = name + " " + who
	now := w.clock.Now()
	b := w.belief[name]
	if b != nil && b.token != token && before(now, b.until) && before(now, until) {
		w.t.Errorf("I5: %s is told of %s under %d while %s trusts %d for %v more", who, name, token, b.who, b.token, b.until.Boot-now.Boot)
	}
	if b == nil || token >= b.token {
		w.belief[name] = &belief{token, who, until}
		// Acquire, claim, read, act.
		if before(now, until) {
			w.act(name, token)
		}
	}
}

// extended is called when a renewal was answered.
func (w *cluster) extended(name string, token guard.Token, until clock.Reading) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.renewals++
	b := w.belief[name]
	if b == nil || b.token == token {
		if b != nil && b.until != (clock.Reading{}) {
			b.until = until
		}
		return
	}
	if now := w.clock.Now(); b.token > token && before(now, until) {
		w.t.Errorf("I5: the renewal of %s under %d was answered, and %s was granted it under %d", name, token, b.who, b.token)
	}
}

// letGo is called before a release is sent, or when trust has ended.
func (w *cluster) letGo(name string, token guard.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.belief[name]; b != nil && b.token == token {
		b.until = clock.Reading{}
	}
}

// act is one operation at the resource. The client that was granted last passes.
func (w *cluster) act(name string, token guard.Token) {
	next, v := guard.Decide(guard.Monotonic, w.guards[name], guard.Mark{Token: token, Cell: "world"})
	if b := w.belief[name]; b.token == token && v != guard.Pass && v != guard.Advance {
		w.t.Errorf("I6: %s under %d, the latest, is refused: %v", name, token, v)
	} else if b.token > token && v != guard.Stale && v != guard.Pass {
		w.t.Errorf("I6: %s under %d is %v although %d has claimed", name, token, v, b.token)
	}
	w.guards[name] = next
}

// use has a holder act, whether it still may or not: a zombie asks nobody.
func (w *cluster) use(name string, token guard.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.act(name, token)
}

func before(a, b clock.Reading) bool { return a.Boot < b.Boot }

// audit reads the durable log, as a new server would, and checks every record.
func (w *cluster) audit() {
	s := w.disk.Store(memstore.Options{Clock: w.clock, ActiveTTL: activeTTL})
	defer s.Close()
	tenure, err := s.Claim(w.t.Context(), store.Node{ID: [16]byte{99}}, store.Nonce{99}, nil)
	if err != nil {
		w.t.Fatalf("audit: %v", err)
	}
	table := locktable.New(bounds.DefaultLimits)
	granted := map[guard.Token]string{}
	var last guard.Token
	_, err = tenure.Replay(w.t.Context(), func(uint64, []byte) error {
		return errors.New("a snapshot, whose past cannot be audited")
	}, func(n uint64, raw []byte) error {
		b, _, err := store.OpenBatch(raw)
		if err != nil {
			return err
		}
		for _, e := range b.Events {
			// I2: what a second holder was granted does not apply.
			if err := table.Apply(e); err != nil {
				return fmt.Errorf("batch %d: %w", n, err)
			}
			if e.Kind == recordpb.Kind_KIND_GRANTED {
				if t := guard.Token(e.Token); t <= last {
					w.t.Errorf("I1: token %d after %d in batch %d", t, last, n)
				}
				last = guard.Token(e.Token)
				granted[last] = e.Grants[0].Name
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatalf("audit: %v", err)
	}
	for token, what := range w.seen {
		if name := granted[token]; name == "" || what[:len(name)] != name {
			w.t.Errorf("I3: %q was told of token %d, which the log grants for %q", what, token, name)
		}
	}
}
