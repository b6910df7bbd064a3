package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/guard"
)

// leaseName is what the workers lock.
const leaseName = "ledger"

// Worker is one holder: it adds an amount to the ledger under a lease.
type Worker struct {
	Server string
	// Ledger is a SQLite file or, where a Database is named, a table in it; in a bucket a
	// prefix.
	Ledger   string
	Database string
	// Proxy is the URL of the guard before a ledger that is an HTTP service.
	Proxy  string
	Name   string
	Amount int64
	TTL    time.Duration
	// Guarded: the ledger checks the fencing token.
	Guarded bool
	// Slow: the work between reading and writing lasts until a line is read.
	Slow bool
	// Rides: the lease rides through an outage. The worker adds its amount before, in and
	// after it. It reads a line when the outage has begun.
	Rides bool
}

// rideThrough is for how long a lease may ride.
const rideThrough = time.Hour

// The steps that a worker reports, one line of JSON each.
const (
	stepAsks     = "asks"
	stepAcquired = "acquired"
	stepRead     = "read"
	stepWrote    = "wrote"
	stepRefused  = "refused"
	stepRides    = "rides"
	stepResumed  = "resumed"
	stepReleased = "released"
	stepFailed   = "failed"
)

// step is a report.
type step struct {
	Step    string      `json:"step"`
	Token   guard.Token `json:"fencing_token,omitzero"`
	Seen    guard.Token `json:"seen,omitzero"`
	Balance int64       `json:"balance,string,omitempty"`
	// Riding is what the lease says.
	Riding bool   `json:"riding,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Run works until it is done or its input ends.
func (w Worker) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	goOn := make(chan struct{}, 8)
	go func() {
		// The input ends when the process that started this one ends.
		defer cancel()
		for s := bufio.NewScanner(in); s.Scan(); {
			goOn <- struct{}{}
		}
	}()
	enc := json.NewEncoder(out)
	report := func(s step) { _ = enc.Encode(s) } // nobody reads: the input has ended as well
	if err := w.work(ctx, goOn, report); err != nil {
		report(step{Step: stepFailed, Error: err.Error()})
		return err
	}
	return nil
}

func (w Worker) work(ctx context.Context, goOn <-chan struct{}, report func(step)) error {
	book, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer book.close()
	client, err := pawl.Dial(ctx, []string{w.Server}, pawl.Options{TTL: w.TTL, Label: "worker " + w.Name})
	if err != nil {
		return err
	}
	defer client.Close()

	if w.Rides {
		return w.ride(ctx, client, book, goOn, report)
	}
	err = w.add(ctx, client, book, goOn, report)
	if errors.Is(err, guard.ErrStale) {
		// The ledger said no, and nothing happened. A new lease, the balance as
		// it is now, and the amount is added after all.
		w.Slow = false
		err = w.add(ctx, client, book, goOn, report)
	}
	return err
}

func (w Worker) open(ctx context.Context) (ledger, error) {
	if at := workersBucket(); at != "" {
		return openBucket(ctx, at, w.Ledger)
	}
	if w.Database != "" {
		return openPostgres(ctx, os.Getenv(postgresEnv), w.Database, w.Ledger)
	}
	if w.Proxy != "" {
		return openHTTP(w.Ledger, w.Proxy)
	}
	return openSQLite(w.Ledger)
}

// add is what a careful user writes: acquire (and claim), read, act. What it
// cannot do is to act at the very moment at which it last knew to hold the
// lease.
func (w Worker) add(ctx context.Context, client *pawl.Client, book ledger, goOn <-chan struct{}, report func(step)) error {
	lease, err := w.acquire(ctx, client, book, report)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }() // twice is fine
	if err := w.addUnder(ctx, lease, book, goOn, report); err != nil {
		return err
	}
	_ = lease.Release(ctx) // a lost lease needs no release
	report(step{Step: stepReleased})
	return nil
}

// ride adds the amount three times under one lease: before an outage of the service, in
// it and after it.
func (w Worker) ride(ctx context.Context, client *pawl.Client, book ledger, goOn <-chan struct{}, report func(step)) error {
	lease, err := w.acquire(ctx, client, book, report)
	if err != nil {
		return err
	}
	defer func() { _ = lease.Release(context.WithoutCancel(ctx)) }() // twice is fine
	if err := w.addUnder(ctx, lease, book, nil, report); err != nil {
		return err
	}

	select {
	case <-goOn:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := await(ctx, client, lease, pawl.Riding); err != nil {
		return err
	}
	report(step{Step: stepRides, Token: lease.Token(), Riding: lease.Riding()})
	if err := w.addUnder(ctx, lease, book, nil, report); err != nil {
		return err
	}

	if err := await(ctx, client, lease, pawl.Safe); err != nil {
		return err
	}
	if err := lease.Check(ctx); err != nil {
		return err
	}
	report(step{Step: stepResumed, Token: lease.Token(), Riding: lease.Riding()})
	if err := w.addUnder(ctx, lease, book, nil, report); err != nil {
		return err
	}
	if err := lease.Release(ctx); err != nil {
		return err
	}
	report(step{Step: stepReleased, Token: lease.Token()})
	return nil
}

// await waits for Riding, or for Safe, as long as the lease lasts. An event that the lease
// has left behind is not what is waited for.
func await(ctx context.Context, client *pawl.Client, lease *pawl.Lease, want pawl.EventKind) error {
	for {
		select {
		case e := <-client.Events():
			if e.Kind == want && lease.Riding() == (want == pawl.Riding) {
				return nil
			}
		case <-lease.Context().Done():
			return fmt.Errorf("wait for the event %q: %w", want, context.Cause(lease.Context()))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// acquire takes the lease and, where the ledger checks tokens, claims it.
func (w Worker) acquire(ctx context.Context, client *pawl.Client, book ledger, report func(step)) (*pawl.Lease, error) {
	var options []pawl.AcquireOption
	if w.Guarded {
		if err := book.install(ctx); err != nil {
			return nil, err
		}
		options = append(options, pawl.Claim(book))
	}
	if w.Rides {
		options = append(options, pawl.RideThrough(rideThrough))
	}
	report(step{Step: stepAsks})
	lease, err := client.Acquire(ctx, leaseName, options...)
	if err != nil {
		return nil, err
	}
	report(step{Step: stepAcquired, Token: lease.Token()})
	return lease, nil
}

// addUnder reads the balance and adds the amount, under a lease.
func (w Worker) addUnder(ctx context.Context, lease *pawl.Lease, book ledger, goOn <-chan struct{}, report func(step)) error {
	balance, err := book.balance(ctx)
	if err != nil {
		return err
	}
	if err := context.Cause(lease.Context()); err != nil {
		return err
	}
	report(step{Step: stepRead, Token: lease.Token(), Balance: balance})
	if w.Slow {
		select {
		case <-goOn:
		case <-ctx.Done():
			return ctx.Err()
		}
	}

	// The lease was looked at a moment ago. A pause may lie in between.
	e := entry{Who: w.Name, Amount: w.Amount, Balance: balance + w.Amount, Token: lease.Token()}
	if w.Guarded {
		err = book.addUnder(ctx, lease.Fence(), e)
	} else {
		err = book.add(ctx, e)
	}
	lease.Overtaken(err) // ends a lease whose token the ledger refused
	var stale *guard.StaleError
	if errors.As(err, &stale) {
		report(step{Step: stepRefused, Token: stale.Shown, Seen: stale.Seen})
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	report(step{Step: stepWrote, Token: lease.Token(), Balance: e.Balance})
	return nil
}
