package endtoend

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/pgguard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// outageTTL leaves a busy machine some seconds in each of the promises that are judged.
const outageTTL = 15 * time.Second

// readEvery is how often a rider's mark is read: the renewal interval.
const readEvery = outageTTL / 6

// ledger is a guarded database with a balance for every resource, and an entry for every
// write that was accepted.
type ledger struct {
	dsn  string
	pool *pgxpool.Pool
	pgguard.Guard
	claims sync.Map // the boot time at which this process's claim of a guard.Fence was acknowledged
}

// Claim claims, and notes when.
func (l *ledger) Claim(ctx context.Context, f guard.Fence) error {
	err := l.Guard.Claim(ctx, f)
	if err == nil {
		l.claims.Store(f, clock.Boottime())
	}
	return err
}

// claimed is when a fence had been claimed.
func (l *ledger) claimed(t *testing.T, f guard.Fence) time.Duration {
	t.Helper()
	at, ok := l.claims.Load(f)
	if !ok {
		t.Fatalf("%v was not claimed", f)
	}
	return at.(time.Duration)
}

// ledgerConns serve the jobs of one process, which write about once a second each.
const ledgerConns = 24

func openLedger(ctx context.Context, dsn string, conns int32) (*ledger, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	config.MaxConns = conns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &ledger{dsn: dsn, pool: pool, Guard: pgguard.New(pool)}, nil
}

func newLedger(t *testing.T, name string) *ledger {
	t.Helper()
	_, dsn := postgres(t, name)
	l, err := openLedger(t.Context(), dsn, ledgerConns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.pool.Close)
	if err := l.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The order of a resource's entries is that of its writes: the guard lets no two
	// tokens write at once, and a holder here writes one entry after the other.
	if _, err := l.pool.Exec(t.Context(), `
		create table balances (resource text primary key, balance bigint not null);
		create table entries (id bigint generated always as identity primary key,
			resource text not null, token bigint not null, balance bigint not null, begun bigint not null)`); err != nil {
		t.Fatal(err)
	}
	return l
}

// clerk writes under one fence. It reads the balance once and counts on by itself, so a
// write that lands behind its back is lost, or loses the clerk's.
type clerk struct {
	ledger   *ledger
	fence    guard.Fence
	balance  int64
	accepted int64
}

func (l *ledger) clerk(ctx context.Context, f guard.Fence) (*clerk, error) {
	c := &clerk{ledger: l, fence: f}
	err := l.pool.QueryRow(ctx, "select coalesce(max(balance), 0) from balances where resource = $1", f.Resource).Scan(&c.balance)
	return c, err
}

// write adds 1 to the balance, by a write that began at an instant of the boot-time clock.
func (c *clerk) write(ctx context.Context, begun time.Duration) error {
	err := c.ledger.InTx(ctx, c.fence, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `insert into balances values ($1, $2)
			on conflict (resource) do update set balance = excluded.balance`, c.fence.Resource, c.balance+1); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "insert into entries (resource, token, balance, begun) values ($1, $2, $3, $4)",
			c.fence.Resource, int64(c.fence.Token), c.balance+1, int64(begun))
		return err
	})
	if err == nil {
		c.balance++
		c.accepted++
	}
	return err
}

// entry is a write that was accepted.
type entry struct {
	token   guard.Token
	balance int64
	begun   time.Duration // boot time
}

// entries are those of every resource, in their order.
func (l *ledger) entries(t *testing.T) map[string][]entry {
	t.Helper()
	rows, err := l.pool.Query(t.Context(), "select resource, token, balance, begun from entries order by id")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := map[string][]entry{}
	for rows.Next() {
		var resource string
		var token, begun int64
		var e entry
		if err := rows.Scan(&resource, &token, &e.balance, &begun); err != nil {
			t.Fatal(err)
		}
		e.token, e.begun = guard.Token(token), time.Duration(begun)
		all[resource] = append(all[resource], e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// writersSince is on how many resources a write was accepted that began after an instant.
func (l *ledger) writersSince(t *testing.T, at time.Duration) (n int) {
	t.Helper()
	err := l.pool.QueryRow(t.Context(), "select count(distinct resource) from entries where begun > $1", int64(at)).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// balanceOf is the balance of a resource.
func (l *ledger) balanceOf(t *testing.T, resource string) int64 {
	t.Helper()
	c, err := l.clerk(t.Context(), guard.Fence{Resource: resource})
	if err != nil {
		t.Fatal(err)
	}
	return c.balance
}

// tally returns how many entries follow one of a higher token, and how many writes were
// lost: accepted, and missing in the balance or written over.
func tally(entries []entry, balance int64) (stale, lost int) {
	var highest guard.Token
	for i, e := range entries {
		if e.token < highest {
			stale++
		}
		highest = max(highest, e.token)
		if e.balance != int64(i)+1 {
			lost++
		}
	}
	if missing := len(entries) - int(balance); missing > 0 {
		lost += missing
	}
	return stale, lost
}

// The check itself must find what it is there for.
func TestTallyFindsStaleAndLostWrites(t *testing.T) {
	for _, tc := range []struct {
		entries     []entry
		balance     int64
		stale, lost int
	}{
		{[]entry{{token: 1, balance: 1}, {token: 1, balance: 2}, {token: 2, balance: 3}}, 3, 0, 0},
		{[]entry{{token: 1, balance: 1}, {token: 2, balance: 2}, {token: 1, balance: 3}}, 3, 1, 0},
		{[]entry{{token: 1, balance: 1}, {token: 2, balance: 2}, {token: 1, balance: 2}}, 2, 1, 2},
		{[]entry{{token: 1, balance: 1}, {token: 1, balance: 2}}, 1, 0, 1},
	} {
		if stale, lost := tally(tc.entries, tc.balance); stale != tc.stale || lost != tc.lost {
			t.Errorf("%+v: %d stale, %d lost", tc, stale, lost)
		}
	}
}

// ending is how a job ended by itself: when, by boot time, and by what.
type ending struct {
	at  time.Duration
	why error
}

// guarded is a job that works under a lease and writes through the guard. It ends when
// its lease does.
type guarded interface {
	shown() guard.Fence
	// over is not nil when the job has ended.
	over() *ending
	// wrote is how many of its writes were accepted; asked when it is over.
	wrote() int64
	// back reports, after a ride, that a server has answered and the lease goes on.
	back() bool
	// finish ends a job that goes on, and releases its lease.
	finish()
	// told is what can be said about it when something is wrong.
	told() string
}

// task is a job in this process.
type task struct {
	t     *testing.T
	lease *pawl.Lease
	clerk *clerk
	stop  context.CancelFunc
	done  chan struct{}
	ended ending
}

// startTask returns when the job has written once. It writes again after every pause.
func startTask(t *testing.T, c *pawl.Client, l *ledger, name string, pause time.Duration, options ...pawl.AcquireOption) (*task, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*bound)
	defer cancel()
	lease, err := c.Acquire(ctx, name, append(options, pawl.Claim(l))...)
	if err != nil {
		return nil, fmt.Errorf("acquire %q: %w", name, err)
	}
	clerk, err := l.clerk(ctx, lease.Fence())
	if err == nil {
		err = clerk.write(ctx, clock.Boottime())
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	working, stop := context.WithCancel(t.Context())
	j := &task{t: t, lease: lease, clerk: clerk, stop: stop, done: make(chan struct{})}
	go j.work(working, pause)
	t.Cleanup(func() { stop(); <-j.done })
	return j, nil
}

func (j *task) work(ctx context.Context, pause time.Duration) {
	defer close(j.done)
	beat := time.NewTicker(pause)
	defer beat.Stop()
	for {
		select {
		case <-beat.C:
		case <-j.lease.Context().Done():
			j.ended = ending{clock.Boottime(), context.Cause(j.lease.Context())}
			return
		case <-ctx.Done():
			return
		}
		begun := clock.Boottime()
		if j.lease.RideLeft() == 0 {
			continue // its context tells why
		}
		// A write that has begun is not interrupted: its outcome is to be known.
		if err := j.clerk.write(context.WithoutCancel(ctx), begun); err != nil {
			j.lease.Overtaken(err)
			j.ended = ending{clock.Boottime(), err}
			return
		}
	}
}

func (j *task) shown() guard.Fence { return j.clerk.fence }

func (j *task) over() *ending {
	select {
	case <-j.done:
		return &j.ended
	default:
		return nil
	}
}

func (j *task) wrote() int64 { <-j.done; return j.clerk.accepted }

func (j *task) back() bool {
	return !j.lease.Riding() && j.lease.Remaining() > 0
}

func (j *task) finish() {
	j.stop()
	<-j.done
	ctx, cancel := context.WithTimeout(j.t.Context(), bound)
	defer cancel()
	if err := j.lease.Release(ctx); err != nil {
		j.t.Errorf("release %q: %v", j.lease.Name(), err)
	}
}

func (j *task) told() string { return fmt.Sprint(context.Cause(j.lease.Context())) }

// together does something n times at once, and fails the test with the first error.
func together(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// overWithin waits until all of these jobs have ended.
func overWithin(t *testing.T, within time.Duration, jobs []guarded) {
	t.Helper()
	testwait.Until(t, within, "all of them have ended", func() bool {
		for _, j := range jobs {
			if j.over() == nil {
				return false
			}
		}
		return true
	})
}
