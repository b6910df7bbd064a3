package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

const (
	// historyAfter is the pause between two looks at how much past is kept.
	historyAfter = time.Minute
	// historyMax is how many revisions may be kept, none of them ever removed,
	// before an operator is warned; and when none was removed for historyAge.
	historyMax = 100_000
	historyAge = 24 * time.Hour
)

// monitor is what looking after a cluster that others run knows.
type monitor struct {
	*External
	written kvlog.Seen
	writtenAt,
	historyAt clock.Reading
	past past
}

func newMonitor(e *External) *monitor {
	now := e.opts.Clock.Now()
	return &monitor{External: e, writtenAt: now, historyAt: now}
}

// firstMax bounds how long a start waits for the cluster.
const firstMax = 5 * time.Second

// first looks whether the cluster takes what a cell needs.
func (l *monitor) first(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, firstMax)
	defer done()
	if err := l.once(ctx); err != nil {
		return err
	}
	if err := l.history(ctx); err != nil {
		return err
	}
	l.checkSize(ctx)
	return nil
}

// once asks everything that has to be asked only once.
func (l *monitor) once(ctx context.Context) error {
	seen, err := l.limits(ctx)
	if status.Code(err) == codes.Unavailable {
		err = cmp.Or(l.distrust(ctx), err)
	}
	if err == nil {
		err = l.folder.checkSeen(seen)
	}
	if err != nil {
		return err
	}
	if err := l.folder.writeSeen(seen); err != nil {
		return err
	}
	l.written = seen
	l.reached.Store(&seen)
	l.verified.Store(true)
	return nil
}

// limits finds out whether a batch of the largest size goes through: it sends
// one that can never land. Where the quota alarm is raised nobody can tell.
func (l *monitor) limits(ctx context.Context) (kvlog.Seen, error) {
	tenure := kvlog.Keys{Prefix: l.opts.Prefix}.Tenure()
	most := kvlog.Txn{
		What: "try the largest batch",
		If:   []kvlog.Cond{{Key: tenure, Rev: -1}},
		Then: []kvlog.Op{{Kind: kvlog.OpPut, Key: tenure, Value: make([]byte, store.BatchMax)}},
	}
	var res kvlog.Result
	err := l.patiently(ctx, func() (err error) {
		res, err = kv{l.members}.Txn(ctx, most)
		return err
	})
	switch {
	case err == nil:
		return res.Seen, nil
	case errors.Is(err, store.ErrFull):
		page, err := kv{l.members}.Range(ctx, kvlog.Query{From: tenure, To: tenure + "\x00", Limit: 1, KeysOnly: true})
		return page.Seen, err
	case tooLarge(err):
		return kvlog.Seen{}, fmt.Errorf("%w: it refuses a batch of %d bytes; give every member --max-request-bytes %d or more, which is etcd's default: %w",
			ErrRequestLimit, store.BatchMax, 3*store.BatchMax/2, err)
	}
	return kvlog.Seen{}, tenant{l.External}.refused(err)
}

// patiently tries until another member has had its chance: at the start it is
// not known yet who is there.
func (l *monitor) patiently(ctx context.Context, try func() error) (err error) {
	for range 2 * len(l.all) {
		if err = try(); err == nil || ctx.Err() != nil || !moves(err) {
			return err
		}
	}
	return err
}

// after looks at folder, members and past every tenth of active-ttl.
func (l *monitor) after(ctx context.Context) {
	timer := l.opts.Clock.NewTimer()
	defer timer.Stop()
	for {
		if err := l.folder.same(); err != nil {
			l.fail(err)
			return
		}
		l.turn(ctx, l.opts.Clock.Now())
		timer.Reset(l.opts.ActiveTTL / 10)
		select {
		case <-timer.C():
		case <-ctx.Done():
			if l.folder.same() == nil {
				l.keep(l.opts.Clock.Now())
			}
			return
		}
	}
}

func (l *monitor) turn(ctx context.Context, now clock.Reading) {
	if !l.verified.Load() {
		if err := l.once(ctx); definite(err) {
			l.fail(err)
		}
		return
	}
	l.checkSize(ctx)
	if now.Longer(l.historyAt) >= historyAfter {
		l.historyAt = now
		_ = l.history(ctx) // it looks again in a minute
	}
	if now.Longer(l.writtenAt) >= seenAfter {
		l.keep(now)
	}
}

// keep writes down how far the cluster is known to be.
func (l *monitor) keep(now clock.Reading) {
	seen := l.reached.Load()
	if !l.verified.Load() || seen.Cluster != l.written.Cluster || seen.Rev <= l.written.Rev {
		return
	}
	if err := l.folder.writeSeen(*seen); err != nil {
		l.log.Warn("could not keep what the store has reached", "error", err)
	}
	l.written, l.writtenAt = *seen, now
}

// checkSize sees how full the cluster is.
func (l *monitor) checkSize(ctx context.Context) {
	u, each := l.survey(ctx)
	l.surveyed.Store(&each)
	u.History, u.Warning = l.past.kept, l.past.warning
	l.usage.Store(&u)
}

// survey asks every member how it is, prefers the leader, and tells how full
// the fullest is. What nobody tells, or not to this user, is unknown.
func (m *members) survey(ctx context.Context) (u store.Usage, each []EndpointHealth) {
	answers := make([]*pb.StatusResponse, len(m.all))
	each = make([]EndpointHealth, len(m.all))
	var asked sync.WaitGroup
	for i, one := range m.all {
		asked.Go(func() {
			send := func(ctx context.Context, to *member) (*pb.StatusResponse, error) {
				return to.care.Status(ctx, &pb.StatusRequest{})
			}
			res, token, err := once(ctx, m, one, m.patience, send)
			each[i] = endpointHealth(one.address, res, err)
			if err == nil {
				answers[i] = res
			} else {
				m.login.stale(token, err)
			}
		})
	}
	asked.Wait()
	term := uint64(0)
	for i, res := range answers {
		u.Used, u.Quota = max(u.Used, res.GetDbSizeInUse()), max(u.Quota, res.GetDbSizeQuota())
		u.Full = u.Full || strings.Contains(strings.Join(res.GetErrors(), " "), pb.AlarmType_NOSPACE.String())
		if res.GetLeader() != 0 && res.GetLeader() == res.GetHeader().GetMemberId() && res.GetRaftTerm() > term {
			term = res.GetRaftTerm()
			m.current.Store(int64(i))
		}
	}
	return u, each
}
