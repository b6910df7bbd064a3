package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
)

// Options of a demo.
type Options struct {
	// TTL of the workers' leases, 1 s or more: how long B waits for A.
	TTL    time.Duration
	Clock  clock.Clock
	Report Reporter
	// Postgres is the DSN of a PostgreSQL server for the ledgers, in a database
	// that is made and dropped; empty: they are SQLite files.
	Postgres string
	// HTTP has the ledgers in a service behind "pawl guard proxy". Not with Postgres.
	HTTP bool
	// Bucket is where the ledgers lie instead: the DSN of a part of a bucket, or "s3" for
	// a store of the demo's own in memory; empty: not in a bucket.
	Bucket string
}

// limit bounds the whole demo.
const limit = time.Minute

// What the workers add.
const (
	amountA = 10
	amountB = 20
)

// ErrUnexpectedOutcome: an act did not come out as it must.
var ErrUnexpectedOutcome = errors.New("the demo did not come out as it must")

// Zombie runs the three acts and returns nil when all came out as they must.
func Zombie(ctx context.Context, o Options) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	folder, err := os.MkdirTemp("", "pawl-demo-")
	if err != nil {
		return fmt.Errorf("make a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	var at place = sqlitePlace{folder}
	switch {
	case o.Postgres != "":
		if at, err = makePostgres(ctx, o.Postgres); err != nil {
			return err
		}
	case o.HTTP:
		if at, err = makeHTTP(ctx, folder); err != nil {
			return err
		}
	case o.Bucket != "":
		if at, err = makeBucket(ctx, o.Bucket); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, at.remove()) }()

	z := &zombie{o: o, place: at, data: filepath.Join(folder, "data"), begun: o.Clock.Now()}
	s := at.setting()
	s.TTL = o.TTL
	o.Report.Begin(s)
	if err := z.serve(ctx, "127.0.0.1:0"); err != nil {
		return err
	}
	defer func() { z.server.stop() }() // the one that runs by then
	z.say("server", "started", 0, "serves on %s with its embedded store (process %d)", z.address, z.server.cmd.Process.Pid)

	lost, err := z.lateWrite(ctx, Unguarded)
	if err != nil {
		return err
	}
	kept, err := z.lateWrite(ctx, Guarded)
	if err != nil {
		return err
	}
	ridden, err := z.outage(ctx)
	if err != nil {
		return err
	}
	v := judge(lost, kept, ridden)
	o.Report.End(v)
	if !v.OK {
		return ErrUnexpectedOutcome
	}
	return nil
}

// zombie is a demo that runs.
type zombie struct {
	o       Options
	place   place
	data    string // the server's folder
	server  *process
	address string
	begun   clock.Reading
}

// serve starts the server.
func (z *zombie) serve(ctx context.Context, listen string) error {
	server, address, err := startServer(ctx, z.data, listen)
	if err == nil {
		z.server, z.address = server, address
	}
	return err
}

func (z *zombie) say(who, what string, token guard.Token, text string, a ...any) {
	z.o.Report.Say(Moment{
		At: z.o.Clock.Now().Longer(z.begun), Who: who, What: what, Token: token, Text: fmt.Sprintf(text, a...),
	})
}

// lateWrite runs one of the first two acts. A is stopped between reading and writing,
// outside of a transaction: inside one it would hold SQLite's write lock, or in PostgreSQL
// its lock in the guard, and no claim could succeed before it goes on.
func (z *zombie) lateWrite(ctx context.Context, act Act) (o Outcome, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// When something goes wrong a worker is killed: it may be a stopped one.
	end := func(p *process) {
		if err != nil {
			cancel()
		}
		p.stop()
	}
	z.o.Report.Act(act)
	book, args, env, err := z.place.ledger(ctx, act)
	if err != nil {
		return o, err
	}
	defer book.close()
	if err := book.create(ctx); err != nil {
		return o, err
	}
	w := Worker{Server: z.address, TTL: z.o.TTL, Guarded: act == Guarded}

	w.Name, w.Amount, w.Slow = "A", amountA, true
	a, err := startWorker(ctx, w, args, env)
	if err != nil {
		return o, err
	}
	defer end(a)
	if o.First, err = z.begins(ctx, a, w); err != nil {
		return o, err
	}
	if err := a.signal(syscall.SIGSTOP); err != nil {
		return o, err
	}
	z.say("A", "stopped", o.First, "is stopped (SIGSTOP), as by a long pause of its machine")

	w.Name, w.Amount, w.Slow = "B", amountB, false
	b, err := startWorker(ctx, w, args, env)
	if err != nil {
		return o, err
	}
	defer end(b)
	if o.Second, err = z.takesOver(ctx, b, w, o.First); err != nil {
		return o, err
	}
	if err := errors.Join(a.goOn(), a.signal(syscall.SIGCONT)); err != nil {
		return o, err
	}
	z.say("A", "continued", o.First, "wakes up (SIGCONT) and finishes what it was doing")
	if o.Refused, err = z.comesBack(ctx, a, w, o); err != nil {
		return o, err
	}
	if o.account, err = accountOf(ctx, book); err != nil {
		return o, err
	}
	z.o.Report.Ledger(o.account)
	return o, nil
}

// begins follows A up to where it has read and not yet written.
func (z *zombie) begins(ctx context.Context, a *process, w Worker) (guard.Token, error) {
	if _, err := a.next(ctx, stepAsks); err != nil {
		return 0, err
	}
	s, err := a.next(ctx, stepAcquired)
	if err != nil {
		return 0, err
	}
	z.say("A", s.Step, s.Token, "takes the lease %q%s", leaseName, claimText(w.Guarded))
	if s, err = a.next(ctx, stepRead); err != nil {
		return 0, err
	}
	z.say("A", s.Step, s.Token, "reads the balance, %d, and is about to add %d", s.Balance, amountA)
	return s.Token, nil
}

func claimText(guarded bool) string {
	if guarded {
		return " and claims the ledger with its token"
	}
	return ""
}

// takesOver follows B from its wait to its release.
func (z *zombie) takesOver(ctx context.Context, b *process, w Worker, first guard.Token) (guard.Token, error) {
	s, err := b.next(ctx, stepAsks)
	if err != nil {
		return 0, err
	}
	z.say("B", s.Step, 0, "asks for the lease and waits: A holds it")
	if s, err = b.next(ctx, stepAcquired); err != nil {
		return 0, err
	}
	if s.Token <= first {
		return 0, fmt.Errorf("%w: B's token %d is not above A's %d", ErrUnexpectedOutcome, s.Token, first)
	}
	token := s.Token
	z.say("server", "expired", 0, "has not heard of A for its TTL of %v: the lease goes to B", z.o.TTL)
	z.say("B", s.Step, token, "takes the lease%s; the token is higher", claimText(w.Guarded))
	if s, err = b.next(ctx, stepRead); err != nil {
		return 0, err
	}
	read := s.Balance
	if s, err = b.next(ctx, stepWrote); err != nil {
		return 0, err
	}
	z.say("B", s.Step, token, "reads %d, writes %d + %d = %d", read, read, amountB, s.Balance)
	if _, err = b.next(ctx, stepReleased); err != nil {
		return 0, err
	}
	z.say("B", stepReleased, token, "releases the lease")
	return token, nil
}

// comesBack follows A's late write and reports whether it was refused.
func (z *zombie) comesBack(ctx context.Context, a *process, w Worker, o Outcome) (refused bool, err error) {
	if !w.Guarded {
		s, err := a.next(ctx, stepWrote)
		if err != nil {
			return false, err
		}
		z.say("A", s.Step, s.Token, "writes %d + %d = %d: it had looked at its lease just before it was stopped%s", s.Balance-amountA, amountA, s.Balance, z.place.setting().Late)
		return false, nil
	}
	s, err := a.next(ctx, stepRefused)
	if err != nil {
		return false, err
	}
	if s.Token != o.First || s.Seen != o.Second {
		return false, fmt.Errorf("%w: refused was token %d after %d, expected %d after %d", ErrUnexpectedOutcome, s.Token, s.Seen, o.First, o.Second)
	}
	z.say("A", s.Step, s.Token, "REFUSED by the ledger: it has seen the higher token %d; nothing was written", s.Seen)
	if _, err := a.next(ctx, stepAsks); err != nil {
		return false, err
	}
	if s, err = a.next(ctx, stepAcquired); err != nil {
		return false, err
	}
	z.say("A", s.Step, s.Token, "knows now, and takes the lease anew")
	if s, err = a.next(ctx, stepRead); err != nil {
		return false, err
	}
	read := s.Balance
	if s, err = a.next(ctx, stepWrote); err != nil {
		return false, err
	}
	z.say("A", s.Step, s.Token, "reads %d, writes %d + %d = %d", read, read, amountA, s.Balance)
	return true, nil
}
