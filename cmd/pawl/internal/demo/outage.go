package demo

import (
	"context"
	"errors"
	"net"
	"syscall"
)

// outage runs the third act: the server is killed under A, whose lease rides. A adds to
// the ledger before, in and after the outage.
func (z *zombie) outage(ctx context.Context) (r Ridden, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	z.o.Report.Act(Outage)
	book, args, env, err := z.place.ledger(ctx, Outage)
	if err != nil {
		return r, err
	}
	defer book.close()
	if err := book.create(ctx); err != nil {
		return r, err
	}
	w := Worker{Server: z.address, TTL: z.o.TTL, Guarded: true, Rides: true, Name: "A", Amount: amountA}
	a, err := startWorker(ctx, w, args, env)
	if err != nil {
		return r, err
	}
	defer a.stop()

	if _, err = a.next(ctx, stepAsks); err != nil {
		return r, err
	}
	s, err := a.next(ctx, stepAcquired)
	if err != nil {
		return r, err
	}
	r.Token = s.Token
	z.say("A", s.Step, s.Token, "takes the lease%s; it may ride through an outage of %.0f h", claimText(true), rideThrough.Hours())
	if err := z.adds(ctx, a, ""); err != nil {
		return r, err
	}
	if err := z.worksAlone(ctx, a, &r); err != nil {
		return r, err
	}
	if err := z.resumes(ctx, a, &r); err != nil {
		return r, err
	}
	if r.account, err = accountOf(ctx, book); err != nil {
		return r, err
	}
	z.o.Report.Ledger(r.account)
	return r, nil
}

// worksAlone kills the server and follows A until it has written without one.
func (z *zombie) worksAlone(ctx context.Context, a *process, r *Ridden) error {
	if err := z.server.kill(); err != nil {
		return err
	}
	z.say("server", "killed", 0, "is killed (SIGKILL): nobody renews a lease, and nobody grants one")
	if err := a.goOn(); err != nil {
		return err
	}
	s, err := a.next(ctx, stepRides)
	if err != nil {
		return err
	}
	r.Rode = s.Riding && s.Token == r.Token
	alone := !z.answers(ctx)
	z.say("A", s.Step, s.Token, "has come to its deadline without an answer: its lease rides on")
	if err := z.adds(ctx, a, ": the ledger knows of no higher token, and accepts it"); err != nil {
		return err
	}
	r.Alone = alone && !z.answers(ctx)
	return nil
}

// resumes starts the server again and follows A to its release.
func (z *zombie) resumes(ctx context.Context, a *process, r *Ridden) error {
	if err := z.serve(ctx, z.address); err != nil {
		return err
	}
	z.say("server", "started", 0, "serves again on %s, with what its store has kept (process %d)", z.address, z.server.cmd.Process.Pid)
	s, err := a.next(ctx, stepResumed)
	if err != nil {
		return err
	}
	r.Resumed = !s.Riding && s.Token == r.Token
	z.say("A", s.Step, s.Token, "has its answer: the lease goes on, under the same token")
	if err := z.adds(ctx, a, ""); err != nil {
		return err
	}
	if s, err = a.next(ctx, stepReleased); err != nil {
		return err
	}
	z.say("A", s.Step, s.Token, "releases the lease")
	return nil
}

// adds follows A through an addition, and tells it with an ending.
func (z *zombie) adds(ctx context.Context, a *process, ending string) error {
	s, err := a.next(ctx, stepRead)
	if err != nil {
		return err
	}
	read := s.Balance
	if s, err = a.next(ctx, stepWrote); err != nil {
		return err
	}
	z.say("A", s.Step, s.Token, "reads %d, writes %d + %d = %d%s", read, read, amountA, s.Balance, ending)
	return nil
}

// answers reports whether anything may listen at the server's address.
func (z *zombie) answers(ctx context.Context) bool {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", z.address)
	if err != nil {
		return !errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return true
}
