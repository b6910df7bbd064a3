package etcdstore

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/kvlog"
)

// past is what is known about how the cluster forgets. etcd tells nobody
// whether it compacts; but a revision that was compacted cannot be read.
type past struct {
	// oldest is the oldest revision that can be read, since movedAt as far as
	// this server has watched.
	oldest  int64
	movedAt clock.Reading
	// kept is how many revisions lie between it and the present.
	kept    int64
	warning string
}

// history finds the oldest revision that can be read.
func (l *monitor) history(ctx context.Context) error {
	seen := l.reached.Load()
	if seen == nil {
		return nil
	}
	oldest, err := l.oldest(ctx, max(l.past.oldest, 1), seen.Rev)
	if err != nil {
		return err
	}
	l.past.take(l.opts.Clock.Now(), oldest, seen.Rev, l.log.Warn)
	return nil
}

// oldest searches in (from-1, to]: below the answer nothing can be read.
func (l *monitor) oldest(ctx context.Context, from, to int64) (int64, error) {
	tenure := kvlog.Keys{Prefix: l.opts.Prefix}.Tenure()
	for at := from; from < to; at = from + (to-from)/2 {
		_, err := kv{l.members}.Range(ctx, kvlog.Query{From: tenure, To: tenure + "\x00", Rev: at, Limit: 1, KeysOnly: true})
		switch {
		case err == nil:
			to = at
		case errors.Is(etcdError(err), rpctypes.ErrCompacted):
			from = at + 1
		default:
			return 0, err
		}
	}
	return to, nil
}

// take notes what can be read now, and warns when it grows without end.
func (p *past) take(now clock.Reading, oldest, present int64, warn func(string, ...any)) {
	if oldest != p.oldest {
		p.oldest, p.movedAt = oldest, now
	}
	p.kept = present - oldest
	was := p.warning
	switch {
	case p.kept < historyMax:
		p.warning = ""
	case oldest <= 1:
		p.warning = fmt.Sprintf("nothing has ever compacted etcd: it keeps all %d revisions and grows until it is full; start its members with --auto-compaction-retention", p.kept)
	case now.Longer(p.movedAt) >= historyAge:
		p.warning = fmt.Sprintf("nothing has compacted etcd for %v: it keeps %d revisions and grows until it is full; see --auto-compaction-retention of its members", historyAge, p.kept)
	default:
		p.warning = ""
	}
	if p.warning != "" && was == "" {
		warn(p.warning)
	}
}
