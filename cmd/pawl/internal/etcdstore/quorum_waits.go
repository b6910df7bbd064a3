package etcdstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// majorityPace is the pause between two looks whether a member leads the others.
const majorityPace = 500 * time.Millisecond

// Waits is what the member waits for, for the end of a sentence that begins with "it
// waits for"; empty: it does not wait, or has not said yet for what. It names members and
// no addresses, so everybody may know it. It does not block.
func (q *Quorum) Waits() string {
	if what := q.waits.Load(); what != nil {
		return *what
	}
	return ""
}

// waiting notes what is waited for, and logs it when that changes. why is for the log
// alone; empty: what says it all.
func (q *Quorum) waiting(what, why string) {
	said := what
	if why != "" {
		said += ": " + why
	}
	if before := q.said.Swap(&said); before == nil || *before != said {
		q.opts.Logger.Warn("the member waits", "for", said)
	}
	q.waits.Store(&what)
}

// watchMajority notes while the member has its place and no majority to be led by, until
// ctx ends.
func (q *Quorum) watchMajority(ctx context.Context) {
	timer := q.opts.Clock.NewTimer()
	defer timer.Stop()
	for {
		timer.Reset(majorityPace)
		select {
		case <-timer.C():
		case <-ctx.Done():
			return
		case <-q.etcd.Server.StopNotify():
			return
		}
		what := ""
		if q.etcd.Server.Leader() == 0 {
			what = q.missing(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return
		case what != "":
			q.waiting(what, "")
		case q.waits.Swap(nil) != nil:
			q.said.Store(nil)
			q.opts.Logger.Info("a majority of the members answers again")
		}
	}
}

// missing says which members a majority is lacking; empty: it is complete, and elects.
func (q *Quorum) missing(ctx context.Context) string {
	answers := q.peers.askAll(ctx, 0)
	own := uint64(q.etcd.Server.MemberID())
	voters := 0
	var silent []string
	for _, m := range membersOf(q.etcd) {
		if m.Learner {
			continue
		}
		voters++
		name := m.Name
		if name == "" {
			name = strconv.FormatUint(m.ID, 16)
		}
		answered := m.ID == own
		for _, a := range answers {
			answered = answered || a.err == nil && a.ID == m.ID
		}
		if !answered {
			silent = append(silent, name)
		}
	}
	if voters-len(silent) > voters/2 {
		return ""
	}
	slices.Sort(silent)
	return fmt.Sprintf("a majority of the members: %d of %d are needed, and no answer comes from %s", voters/2+1, voters, strings.Join(silent, ", "))
}
