package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// Service answers for a cell. Its methods are the cell's. Safe for use by several
// goroutines.
type Service struct {
	cell  *cell.Cell
	gate  *access.Gate
	audit access.AuditLog
}

// New returns the service of a cell behind a gate. There need not be an audit log.
func New(c *cell.Cell, g *access.Gate, w access.AuditLog) *Service { return &Service{c, g, w} }

// Info describes the cell as far as this server knows it.
func (d *Service) Info() cell.Info { return d.cell.Info() }

// Unauthenticated is the refusal of a caller without an identity.
func Unauthenticated(why error) *cell.RefusedError {
	return &cell.RefusedError{Refused: locktable.Refused{Reason: locktable.Unauthenticated, Message: why.Error()}}
}

// Denied is the refusal of a right on a name; without a name, of one on all
// names.
func Denied(i *access.Identity, r access.Right, name string) locktable.Refused {
	what := fmt.Sprintf("%q", name)
	if name == "" {
		what = "this"
	}
	return locktable.Refused{Reason: locktable.Denied, Name: name, Message: fmt.Sprintf("%q may not %s %s", i.Name(), r, what)}
}

// unaudited refuses what may only be done when it is taken down.
var unaudited = &cell.RefusedError{Refused: locktable.Refused{
	Reason: locktable.Unavailable, Message: "the audit log cannot be written, and nothing is granted without it",
}}

// AuditRefusal refuses what may only be done when it is taken down; nil: it is.
func (d *Service) AuditRefusal() *cell.RefusedError {
	if d.audit == nil || d.audit.Writable() {
		return nil
	}
	return unaudited
}

// request is a request and what is to be noted of it.
type request struct {
	service  *Service
	caller   *access.Caller
	identity *access.Identity
	record   access.AuditRecord
}

// begin begins a request: it finds the caller, and returns a context that names its
// identity to the cell. It fails when the caller is not admitted; rights are not checked
// here.
func (d *Service) begin(ctx context.Context, verb string, names ...string) (*request, context.Context, error) {
	c, err := d.Admit(ctx, verb)
	if err != nil {
		return nil, nil, err
	}
	i := c.Identity()
	if i == nil {
		return nil, nil, d.recordRefusal(verb, c.Remote, access.ErrRevoked)
	}
	record := access.AuditRecord{Identity: i.Name(), Remote: c.Remote, Verb: verb, Names: names}
	return &request{d, c, i, record}, cell.As(ctx, i.Name()), nil
}

// Admit finds who asks, for a verb; the error is a *cell.RefusedError.
func (d *Service) Admit(ctx context.Context, verb string) (*access.Caller, error) {
	c, err := d.gate.From(ctx)
	if err != nil {
		return nil, d.recordRefusal(verb, access.Remote(ctx), err)
	}
	return c, nil
}

// recordRefusal records that a caller was not admitted.
func (d *Service) recordRefusal(verb, remote string, why error) error {
	d.Record(access.AuditRecord{Remote: remote, Verb: verb, Outcome: string(locktable.Unauthenticated), Detail: why.Error()})
	return Unauthenticated(why)
}

// Record counts a record that was refused for who asked, and tells the audit log, if
// there is one.
func (d *Service) Record(x access.AuditRecord) {
	switch locktable.Reason(x.Outcome) {
	case locktable.Denied:
		d.gate.Denied.Add(1)
	case locktable.Unauthenticated:
		d.gate.Unauthenticated.Add(1)
	}
	if d.audit != nil {
		d.audit.Record(x)
	}
}

// May refuses a caller that has a right on no name at all, before anything of its
// request is read but who asks; the error is a *cell.RefusedError.
func (d *Service) May(ctx context.Context, verb string, r access.Right) error {
	a, _, err := d.begin(ctx, verb)
	if err != nil {
		return err
	}
	if !a.identity.Anywhere(r) {
		return a.finish("", &cell.RefusedError{Refused: Denied(a.identity, r, "")})
	}
	return nil
}

// Bytes waits until a number of bytes of the caller's request may be read, and Decoding
// until they may be decoded. Both come before the request's content is known, so that
// no identity delays others. The errors are *cell.RefusedError, or the context's.
func (d *Service) Bytes(ctx context.Context, n int) (give func(), err error) {
	c, err := d.gate.From(ctx)
	if err == nil {
		give, err = d.gate.Bytes(ctx, c, n)
	}
	return give, limitError(err)
}

// Decoding is described at Bytes.
func (d *Service) Decoding(ctx context.Context) (done func(), err error) {
	c, err := d.gate.From(ctx)
	if err == nil {
		done, err = d.gate.Decoding(ctx, c)
	}
	return done, limitError(err)
}

func limitError(err error) error {
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, access.ErrTooMany):
		return &cell.RefusedError{Refused: locktable.Refused{Reason: locktable.Exhausted, Message: err.Error()}}
	}
	return Unauthenticated(err)
}

// require refuses unless the caller has a right on all names.
func (a *request) require(r access.Right, names ...string) error {
	name, denied := a.identity.Denied(r, names)
	if !denied {
		return nil
	}
	return a.finish("", &cell.RefusedError{Refused: Denied(a.identity, r, name)})
}

// finish notes what came of a request, and hides from the caller what it may not
// see.
func (a *request) finish(outcome string, err error) error {
	var no *cell.RefusedError
	switch {
	case err == nil:
		a.record.Outcome = outcome
	case errors.As(err, &no):
		if no.Holder != nil && !a.identity.Allow(access.Read, no.Name) {
			hidden := *no
			hidden.Holder = nil
			no, err = &hidden, &hidden
		}
		a.record.Outcome, a.record.Detail = string(no.Reason), no.Message
	default:
		a.record.Outcome, a.record.Detail = "unknown", "the caller went before the answer"
	}
	a.service.Record(a.record)
	return err
}

// nameError refuses an invalid name. The caller is told, and the name does not
// get into the audit log.
func nameError(why error) *cell.RefusedError {
	return &cell.RefusedError{Refused: locktable.Refused{Reason: locktable.Invalid, Message: why.Error()}}
}

// OpenSession opens a session without a stream for the caller.
func (d *Service) OpenSession(ctx context.Context, ttl time.Duration, label string) (session string, granted time.Duration, err error) {
	a, ctx, err := d.begin(ctx, "open")
	if err != nil {
		return "", 0, err
	}
	if !a.identity.Anywhere(access.Hold) {
		return "", 0, a.finish("", &cell.RefusedError{Refused: Denied(a.identity, access.Hold, "")})
	}
	if no := d.AuditRefusal(); no != nil {
		return "", 0, no
	}
	session, granted, err = d.cell.OpenSession(ctx, ttl, label)
	a.record.Handle = d.cell.HandleOf(session)
	return session, granted, a.finish("done", err)
}

// RenewSession renews a session of the caller's. Renewals are not noted.
func (d *Service) RenewSession(ctx context.Context, session string, want time.Duration) (time.Duration, error) {
	_, ctx, err := d.begin(ctx, "renew")
	if err != nil {
		return 0, err
	}
	return d.cell.RenewSession(ctx, session, want)
}

// CloseSession ends a session of the caller's and all its leases. givenUp: the caller has
// lost it.
func (d *Service) CloseSession(ctx context.Context, session string, givenUp bool) error {
	a, ctx, err := d.begin(ctx, "close")
	if err != nil {
		return err
	}
	err = d.cell.CloseSession(ctx, session, givenUp)
	a.record.Idle = !a.identity.Anywhere(access.Hold)
	a.record.Handle = d.cell.HandleOf(session)
	return a.finish("done", err)
}

// RenewLease renews the session of a lease of the caller's. Renewals are not
// noted.
func (d *Service) RenewLease(ctx context.Context, lease string, want time.Duration) (cell.Renewal, error) {
	_, ctx, err := d.begin(ctx, "renew")
	if err != nil {
		return cell.Renewal{}, err
	}
	return d.cell.RenewLease(ctx, lease, want)
}

// Release ends a lease of the caller's.
func (d *Service) Release(ctx context.Context, lease string) error {
	a, ctx, err := d.begin(ctx, "release")
	if err != nil {
		return err
	}
	err = d.cell.Release(ctx, lease)
	a.record.Handle = d.cell.HandleOfLease(lease)
	return a.finish("done", err)
}

// Acquire requests a lease of names that the caller may hold. It ends when the caller's
// rights change. That goes for a single try, too, which may wait in the queue while the
// store is slow. A wait also ends with the caller's certificate.
func (d *Service) Acquire(ctx context.Context, r cell.AcquireRequest) (cell.Lease, error) {
	a, ctx, err := d.begin(ctx, "acquire", r.Names...)
	if err != nil {
		return cell.Lease{}, err
	}
	if err := bounds.TooManyNames(r.Names); err != nil {
		return cell.Lease{}, nameError(err)
	}
	for _, name := range r.Names {
		if err := bounds.ValidName(name); err != nil {
			return cell.Lease{}, nameError(err)
		}
	}
	if err := a.require(access.Hold, r.Names...); err != nil {
		return cell.Lease{}, err
	}
	if no := d.AuditRefusal(); no != nil {
		return cell.Lease{}, no
	}
	r.QueuedMax = a.identity.Limits().Acquires
	if left, by := a.caller.Left(); by {
		r.Wait = min(r.Wait, left)
	}
	if !d.gate.Open() {
		waiting, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		guest, err := d.gate.Register(a.caller, false, cancel)
		if err != nil {
			return cell.Lease{}, Unauthenticated(err)
		}
		defer guest.End()
		ctx = waiting
	}
	l, err := d.cell.Acquire(ctx, r)
	switch cause := context.Cause(ctx); {
	case err == nil:
		a.record.Token, a.record.Handle = uint64(l.Granted.Token), d.cell.Handle(l.Granted.Session)
	case errors.Is(cause, access.ErrRevoked):
		err = Unauthenticated(cause)
	case errors.Is(cause, access.ErrChanged):
		err = &cell.RefusedError{Refused: locktable.Refused{Reason: locktable.Unavailable, Message: cause.Error()}}
	}
	return l, a.finish("granted", err)
}

// List reads of what is held or waited for what the caller may read.
func (d *Service) List(ctx context.Context, l locktable.List) (locktable.Page, error) {
	a, ctx, err := d.begin(ctx, "list")
	if err != nil {
		return locktable.Page{}, err
	}
	if l.Name != "" {
		if err := bounds.ValidName(l.Name); err != nil {
			return locktable.Page{}, nameError(err)
		}
		a.record.Names = []string{l.Name}
		if err := a.require(access.Read, l.Name); err != nil {
			return locktable.Page{}, err
		}
	}
	l.Within = a.identity.Within(access.Read)
	return d.cell.List(ctx, l)
}

// Break asks the holder of a name that the caller may break to let go, or ends
// its lease at once.
func (d *Service) Break(ctx context.Context, b locktable.Break) (locktable.Broken, error) {
	a, ctx, err := d.begin(ctx, "break", b.Name)
	if err != nil {
		return locktable.Broken{}, err
	}
	if err := bounds.ValidName(b.Name); err != nil {
		return locktable.Broken{}, nameError(err)
	}
	a.record.Token, a.record.Reason = uint64(b.Token), b.Reason
	if err := a.require(access.Break, b.Name); err != nil {
		return locktable.Broken{}, err
	}
	if no := d.AuditRefusal(); no != nil {
		return locktable.Broken{}, no
	}
	if !a.identity.Everywhere(access.Break) {
		b.May = func(name string) bool { return a.identity.Allow(access.Break, name) }
	}
	outcome := "done"
	if b.Now {
		outcome = "ended"
	}
	broken, err := d.cell.Break(ctx, b)
	return broken, a.finish(outcome, err)
}

// Drill holds a drill with an outage of a length, for one who is admin of all names, and
// waits for its report. It goes on when its caller goes.
func (d *Service) Drill(ctx context.Context, lasts time.Duration) (cell.DrillReport, error) {
	a, ctx, err := d.begin(ctx, "drill")
	if err != nil {
		return cell.DrillReport{}, err
	}
	a.record.Reason = "outage for " + lasts.String()
	if !a.identity.Everywhere(access.Admin) {
		return cell.DrillReport{}, a.finish("", &cell.RefusedError{Refused: Denied(a.identity, access.Admin, "")})
	}
	if no := d.AuditRefusal(); no != nil {
		return cell.DrillReport{}, no
	}
	x, err := d.cell.BeginDrill(ctx, lasts)
	if err := a.finish("begun", err); err != nil {
		return cell.DrillReport{}, err
	}
	report, err := x.Report(ctx)
	if i := a.caller.Identity(); err == nil && (i == nil || !i.Everywhere(access.Admin)) {
		return cell.DrillReport{}, Unauthenticated(access.ErrRevoked)
	}
	return report, err
}

// Status describes the cell. What says how much there is of anything is for
// those alone who are admin of all names.
func (d *Service) Status(ctx context.Context) (cell.Status, error) {
	a, ctx, err := d.begin(ctx, "status")
	if err != nil {
		return cell.Status{}, err
	}
	s, err := d.cell.Status(ctx)
	if err != nil || a.identity.Everywhere(access.Admin) {
		return s, err
	}
	return cell.Status{Info: s.Info, Drill: s.Drill, Waits: s.Waits, Partial: true}, nil
}

// Metrics refuses those who may not see the metrics: they name nothing, so who
// may read every name may.
func (d *Service) Metrics(ctx context.Context) error {
	a, _, err := d.begin(ctx, "metrics")
	if err != nil {
		return err
	}
	if a.identity.Everywhere(access.Read) {
		return nil
	}
	return a.finish("", &cell.RefusedError{Refused: Denied(a.identity, access.Read, "")})
}
