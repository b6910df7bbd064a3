package etcdstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/founding"
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
	q.every(ctx, majorityPace, func() bool {
		what := ""
		if q.etcd.Server.Leader() == 0 {
			what = q.missing(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return false
		case what != "":
			q.waiting(what, "")
		case q.waits.Swap(nil) != nil:
			q.said.Store(nil)
			q.opts.Logger.Info("a majority of the members answers again")
		}
		return true
	})
}

// missing says which members a majority is lacking; empty: it is complete, and elects.
func (q *Quorum) missing(ctx context.Context) string {
	return missingOf(membersOf(q.etcd), uint64(q.etcd.Server.MemberID()), q.peers.askAll(ctx, 0))
}

// missingOf is missing for what the peers answered. A voter whose folder is empty has
// lost its disk: it answers, and waits to be let in by the majority that it was part of.
func missingOf(members []memberShown, own uint64, answers map[Peer]answer) string {
	voters, there := 0, 0
	var silent, empty []string
	for _, m := range members {
		if m.Learner {
			continue
		}
		voters++
		name := cmp.Or(m.Name, strconv.FormatUint(m.ID, 16))
		answered, emptied := m.ID == own, false
		for peer, a := range answers {
			answered = answered || a.err == nil && a.ID == m.ID
			emptied = emptied || a.err == nil && a.State == founding.Empty && peer.Name == m.Name
		}
		switch {
		case answered:
			there++
		case emptied:
			empty = append(empty, name)
		default:
			silent = append(silent, name)
		}
	}
	if there > voters/2 {
		return ""
	}
	what := []string{fmt.Sprintf("a majority of the members: %d of %d are needed", voters/2+1, voters)}
	if slices.Sort(silent); len(silent) > 0 {
		what = append(what, "no answer comes from "+strings.Join(silent, ", "))
	}
	if slices.Sort(empty); len(empty) > 0 {
		what = append(what, "an empty folder has "+strings.Join(empty, ", "))
	}
	return what[0] + ", and " + strings.Join(what[1:], ", and ")
}
