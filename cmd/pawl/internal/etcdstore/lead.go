package etcdstore

import (
	"context"
	"encoding/json"
	"errors"
	"expvar"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/raft/v3"

	"github.com/pawlproject/pawl/internal/clock"
)

const (
	// tick is a member's heartbeat, election how long followers wait for one, at least;
	// at most twice as long.
	tick     = 100 * time.Millisecond
	election = 10 * tick
	// leadPace is the pause between two looks at which member leads.
	leadPace = tick / 2
	// goneAfter is after how long without an answer to its heartbeats a new leader takes
	// the one before it for gone.
	goneAfter = tick * 5 / 2
	// lostAfter is how long after another member leads a request is given up that was sent
	// before, and tried again: one that a member passes on to the leader is lost without
	// a word when that one is about to lead no more.
	lostAfter = tick
	// moveMax is how long moving the lead may take, settled how long the lead is left
	// where it is at first, and movePauseMax how long after tries that failed.
	moveMax      = election
	settled      = election
	movePauseMax = time.Minute
	// handOverMax is how long a server that stops waits for its successor to take the
	// lead.
	handOverMax = election / 2
	// behindMax is by how many entries the next leader may be behind.
	behindMax = 1000
	pathLead  = "/pawl/v1/lead"
)

// lead is who leads the members, as this server has watched it.
type lead struct {
	clock clock.Clock
	mu    sync.Mutex
	// leader is the last one, since when this server knows of it, and before the one
	// before it; 0: none yet.
	leader, before uint64
	since          clock.Reading
	// heard: before has answered this server's member since that one leads.
	heard bool
	// term ends some time after the present leader leads no more, and old those of the
	// leaders before.
	term term
	old  []term
}

// term is the time of one leader; what was sent in it may be lost with it.
type term struct {
	context.Context
	end context.CancelFunc
}

func newTerm() term {
	ctx, end := context.WithCancel(context.Background())
	return term{ctx, end}
}

// note takes in who leads; 0: nobody.
func (l *lead) note(leader uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if leader != 0 && leader != l.leader {
		l.before, l.leader, l.since, l.heard = l.leader, leader, l.clock.Now(), false
		l.old, l.term = append(l.old, l.term), newTerm()
	}
	if len(l.old) > 0 && l.clock.Now().Longer(l.since) >= lostAfter {
		for _, t := range l.old {
			t.end()
		}
		l.old = nil
	}
}

// within ends a request some time after the member that leads now leads no more.
func (l *lead) within(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(l.term, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// hear takes in whether before has answered lately.
func (l *lead) hear(status raft.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, ok := status.Progress[l.before]; ok && p.RecentActive || status.RaftState != raft.StateLeader {
		l.heard = true
	}
}

// led is for how long the present leader leads, and who it is.
func (l *lead) led() (uint64, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leader, l.clock.Now().Longer(l.since)
}

// gone is what kvlog.Members asks.
func (l *lead) gone(own, member uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return member != own && l.leader == own && l.before == member && !l.heard && l.clock.Now().Shorter(l.since) >= goneAfter
}

// Own is this server's member.
func (q *Quorum) Own() uint64 {
	if !q.begun.Load() {
		return 0
	}
	return uint64(q.etcd.Server.MemberID())
}

// Gone reports whether a member led before this server's own, and has not answered it
// since.
func (q *Quorum) Gone(member uint64) bool {
	own := q.Own()
	if own == 0 || uint64(q.etcd.Server.Leader()) != own {
		return false
	}
	status, ok := raftStatus(q.etcd)
	if !ok {
		return false
	}
	q.lead.note(own)
	q.lead.hear(status)
	return q.lead.gone(own, member)
}

// raftStatus is what raft says of this server's member.
func raftStatus(e *embed.Etcd) (raft.Status, bool) {
	f, ok := expvar.Get("raft.status").(expvar.Func)
	if !ok {
		return raft.Status{}, false
	}
	s, ok := f.Value().(raft.Status)
	return s, ok && s.ID == uint64(e.Server.MemberID()) // a test has several members in one process
}

// watchLead watches who leads, and takes the lead while this server is active: what it
// writes then need not go to another one first. It costs the others nothing, where a
// tenure that followed the lead would be a new one each time.
func (q *Quorum) watchLead(ctx context.Context) {
	timer := q.opts.Clock.NewTimer()
	defer timer.Stop()
	own := uint64(q.etcd.Server.MemberID())
	wait, tried := settled, q.opts.Clock.Now()
	fresh := false
	for {
		changed := q.etcd.Server.LeaderChangedNotify()
		q.lead.note(uint64(q.etcd.Server.Leader()))
		leader, since := q.lead.led()
		if leader == own && since < q.Embedded.opts.ActiveTTL {
			if s, ok := raftStatus(q.etcd); ok {
				q.lead.hear(s)
			}
		}
		serving := q.Serving()
		// At its beginning a tenure takes the lead at once.
		fresh = serving && fresh || !serving
		switch {
		case !serving || leader == 0:
		case leader == own:
			wait, fresh = settled, false
		case fresh || min(since, q.opts.Clock.Now().Longer(tried)) >= wait:
			if !fresh {
				wait = min(2*wait, movePauseMax)
			}
			fresh, tried = false, q.opts.Clock.Now()
			if err := q.takeLead(ctx, leader, own); err != nil {
				q.opts.Logger.Debug("the lead stays where it is", "error", err)
			}
		}
		timer.Reset(leadPace)
		select {
		case <-changed:
		case <-timer.C():
		case <-ctx.Done():
			return
		case <-q.etcd.Server.StopNotify():
			return
		}
	}
}

// moving is a request to move the lead.
type moving struct {
	To uint64 `json:"to,string"`
}

// takeLead asks the member that leads.
func (q *Quorum) takeLead(ctx context.Context, leader, own uint64) error {
	for _, m := range membersOf(q.etcd) {
		if m.ID == leader {
			ctx, cancel := context.WithTimeout(ctx, moveMax)
			defer cancel()
			return q.peers.call(ctx, http.MethodPost, m.URL+pathLead, moving{own}, new(moving))
		}
	}
	return fmt.Errorf("the leader %x is no member", leader)
}

func (p *peering) answerLead(w http.ResponseWriter, r *http.Request) {
	var m moving
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, peerAnswerMax)).Decode(&m); err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	e := p.etcd.Load()
	if e == nil {
		http.Error(w, "this server's member has not started", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), moveMax)
	defer cancel()
	if err := moveLead(ctx, e, m.To); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(m) // the asker sees who leads
}

// errNoLead: the lead cannot be moved there now.
var errNoLead = errors.New("the lead is not moved")

func moveLead(ctx context.Context, e *embed.Etcd, to uint64) error {
	own := uint64(e.Server.MemberID())
	if uint64(e.Server.Leader()) != own {
		return fmt.Errorf("%w: this server's member does not lead", errNoLead)
	}
	if s, ok := raftStatus(e); ok {
		if p, ok := s.Progress[to]; !ok || p.IsLearner || !p.RecentActive || p.Match+behindMax < s.HardState.GetCommit() {
			return fmt.Errorf("%w: member %x is not up and caught up", errNoLead, to)
		}
	}
	return e.Server.MoveLeader(ctx, own, to)
}

// handOver waits, while this server's member leads, for the next active server to take
// the lead; etcd hands it to any other one when it stops.
func (q *Quorum) handOver() {
	if q.etcd == nil || !q.begun.Load() || len(membersOf(q.etcd)) == 1 {
		return
	}
	timer := q.opts.Clock.NewTimer()
	defer timer.Stop()
	since := q.opts.Clock.Now()
	for uint64(q.etcd.Server.Leader()) == q.Own() && q.Err() == nil && q.opts.Clock.Now().Longer(since) < handOverMax {
		timer.Reset(leaderPace)
		<-timer.C()
	}
}
