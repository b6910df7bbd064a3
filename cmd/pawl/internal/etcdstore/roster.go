package etcdstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
	"go.etcd.io/etcd/server/v3/storage/mvcc"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/founding"
)

// The roster is what operators said of members, in the cluster itself: a key for each
// name. It says who may join beside the servers of --peers, and who may not any more.
const (
	rosterFrom = "members/"
	rosterTo   = "members0"
)

// expected is the roster's entry of a name.
type expected struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	// Replaces is the member that is removed once this one is a voter.
	Replaces string `json:"replaces,omitempty"`
	// Removed: it may not join again.
	Removed bool `json:"removed,omitempty"`
}

// expectations reads the roster as this member knows it.
func expectations(e *embed.Etcd) []expected {
	res, err := e.Server.KV().Range(context.Background(), []byte(rosterFrom), []byte(rosterTo), mvcc.RangeOptions{})
	if err != nil {
		return nil // the store is closing
	}
	var all []expected
	for _, kv := range res.KVs {
		var x expected
		if json.Unmarshal(kv.Value, &x) == nil && rosterFrom+x.Name == string(kv.Key) {
			all = append(all, x)
		}
	}
	return all
}

// named are the members, each with a name: one that has never published its own has the
// one that it is expected by at its address, or else its address.
func (p *peering) named(e *embed.Etcd) []memberShown {
	all := membersOf(e)
	for i, m := range all {
		if m.Name != "" {
			continue
		}
		for _, peer := range slices.Concat(p.all(), p.servers(true)) {
			if peer.URL == m.URL {
				all[i].Name = cmp.Or(all[i].Name, peer.Name)
			}
		}
		all[i].Name = cmp.Or(all[i].Name, m.URL)
	}
	return all
}

func putExpected(ctx context.Context, e *embed.Etcd, x expected) error {
	raw, err := json.Marshal(x)
	if err != nil {
		return err
	}
	_, err = e.Server.Put(ctx, &pb.PutRequest{Key: []byte(rosterFrom + x.Name), Value: raw})
	return err
}

// expects returns what is expected of a name; false: it is not known.
func (p *peering) expects(e *embed.Etcd, name string) (expected, bool) {
	for _, x := range expectations(e) {
		if x.Name == name {
			return x, true
		}
	}
	for _, peer := range p.opts.Peers {
		if peer.Name == name {
			return expected{Name: name, URL: peer.URL}, true
		}
	}
	return expected{}, false
}

// noteReached keeps what other members have acknowledged, as far as that is committed:
// it never leaves their logs again. What is not committed may. This member knows it
// while it leads.
func (p *peering) noteReached(e *embed.Etcd) {
	s, ok := raftStatus(e)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, progress := range s.Progress {
		p.reached[id] = max(p.reached[id], min(progress.Match, s.HardState.GetCommit()))
	}
}

// errNotNow: the cluster cannot be changed so at the moment.
var errNotNow = errors.New("not now")

func (p *peering) answerJoin(w http.ResponseWriter, r *http.Request) {
	var j joining
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, peerAnswerMax)).Decode(&j); err != nil {
		http.Error(w, "the request cannot be read", http.StatusBadRequest)
		return
	}
	e := p.etcd.Load()
	if e == nil {
		http.Error(w, "this server's member has not started", http.StatusServiceUnavailable)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), joinMax-askMax)
	defer cancel()
	p.changes.Lock()
	defer p.changes.Unlock()
	id, err := p.letIn(ctx, e, j)
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(joined{ID: id}) // the joiner asks again, and gets another id
	case errors.Is(err, errNotNow):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, err.Error(), http.StatusForbidden)
	}
}

// letIn adds an empty server as a learner, and returns the learner's id. A member of
// the same name or address is removed first: the server that answers at the address is
// empty, so the log of that member is lost. An id is never given twice: the leader would take
// the new log for one that holds what the old one acknowledged.
func (p *peering) letIn(ctx context.Context, e *embed.Etcd, j joining) (uint64, error) {
	x, known := p.expects(e, j.Name)
	switch {
	case !known:
		return 0, fmt.Errorf("%s is not among the members that are expected; to let it join: pawl member add %s=%s", j.Name, j.Name, j.URL)
	case x.Removed:
		return 0, fmt.Errorf("%s was removed from the members; to let it join again: pawl member add %s=%s", j.Name, j.Name, j.URL)
	case x.URL != j.URL:
		return 0, p.moved(e, x, j)
	case e.Server.Leader() == 0:
		return 0, fmt.Errorf("%w: no member leads", errNotNow)
	}
	a, err := p.ask(ctx, j.URL, 0)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w: %s cannot be reached from %s at %s: %w", errNotNow, j.Name, p.opts.Node, j.URL, err)
	case a.Name != j.Name || a.Visit != j.Visit:
		return 0, fmt.Errorf("at %s another server answers than the one that asks to join, %q", j.URL, a.Name)
	case a.State != founding.Joining:
		// The request was delayed, or is somebody else's: that server has its place, which
		// would be taken from it.
		return 0, fmt.Errorf("%w: %s does not ask to join any more", errNotNow, j.Name)
	}
	for _, m := range membersOf(e) {
		if m.Name == j.Name || m.URL == j.URL {
			p.opts.Logger.Warn("the member's folder is empty, so it is removed and joins as a new one", "member", j.Name, "id", fmt.Sprintf("%x", m.ID))
			if err := removeMember(ctx, e, m.ID); err != nil {
				return 0, fmt.Errorf("%w: the member that %s was before cannot be removed: %w", errNotNow, j.Name, err)
			}
		}
	}
	if x.Replaces != "" {
		if err := p.removeGone(ctx, e, x.Replaces); err != nil {
			return 0, fmt.Errorf("%w: %s, which it replaces, does not answer and cannot be removed: %w", errNotNow, x.Replaces, err)
		}
	}
	urls, err := types.NewURLs([]string{j.URL})
	if err != nil {
		return 0, err
	}
	now := p.opts.Clock.Wall()
	m := membership.NewMemberAsLearner("", urls, "", &now)
	if _, err := e.Server.AddMember(ctx, *m); err != nil {
		return 0, fmt.Errorf("%w: add %s: %w", errNotNow, j.Name, changeError(err))
	}
	p.opts.Logger.Info("a member joins", "member", j.Name, "url", j.URL, "id", fmt.Sprintf("%x", uint64(m.ID)))
	return uint64(m.ID), nil
}

// moved refuses an empty server at another address than the one that is expected, which
// may be a second one under the name, and says how an operator moves it.
func (p *peering) moved(e *embed.Etcd, x expected, j joining) error {
	how := fmt.Sprintf("pawl member add %s=%s", j.Name, j.URL)
	for _, m := range membersOf(e) {
		if m.Name == j.Name {
			how = fmt.Sprintf("pawl member replace %s %s=%s", j.Name, j.Name, j.URL)
		}
	}
	return fmt.Errorf("%s is expected at %s, and it says that it is at %s; if it has moved: %s", j.Name, x.URL, j.URL, how)
}

// removeGone removes a member by its name if it does not answer.
func (p *peering) removeGone(ctx context.Context, e *embed.Etcd, name string) error {
	for _, m := range p.named(e) {
		if m.Name != name {
			continue
		}
		if a, err := p.ask(ctx, m.URL, 0); err != nil || a.ID != m.ID {
			return removeMember(ctx, e, m.ID)
		}
	}
	return nil
}

func removeMember(ctx context.Context, e *embed.Etcd, id uint64) error {
	_, err := e.Server.RemoveMember(ctx, id)
	if errors.Is(err, membership.ErrIDRemoved) || errors.Is(err, membership.ErrIDNotFound) {
		return nil
	}
	return changeError(err)
}

// isRemoved reports whether a member was removed from the cluster for good.
func isRemoved(e *embed.Etcd, id uint64) bool {
	c, ok := e.Server.Cluster().(interface{ IsIDRemoved(types.ID) bool })
	return ok && c.IsIDRemoved(types.ID(id))
}

// changeError says in our words why etcd does not change the members.
func changeError(err error) error {
	switch {
	case errors.Is(err, etcderrors.ErrUnhealthy), errors.Is(err, etcderrors.ErrNotEnoughStartedMembers):
		return fmt.Errorf("too few members have been up for 5 s to go on without one: %w", err)
	case errors.Is(err, etcderrors.ErrLearnerNotReady):
		return fmt.Errorf("it has not caught up: %w", err)
	}
	return err
}

// join asks to be let in, one server after the other.
func (p *peering) join(ctx context.Context, by []Peer) (uint64, error) {
	own := p.own()
	var failed []error
	for _, peer := range by {
		one, cancel := context.WithTimeout(ctx, joinMax)
		var j joined
		err := p.call(one, http.MethodPost, peer.URL+pathJoin, joining{Name: own.Name, URL: own.URL, Visit: p.visit}, &j)
		cancel()
		if err == nil {
			return j.ID, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", peer.Name, err))
		if ctx.Err() != nil {
			break
		}
	}
	return 0, errors.Join(failed...)
}

// initial is etcd's list of the members that a joiner starts with.
func initial(own Peer, id uint64, members []memberShown) (string, error) {
	if !slices.ContainsFunc(members, func(m memberShown) bool { return m.ID == id }) {
		return "", fmt.Errorf("%w: the peers do not know the new member %x yet", errNotNow, id)
	}
	var list []string
	for _, m := range members {
		name := m.Name
		if m.ID == id {
			name = own.Name
		} else if name == "" || name == own.Name {
			name = fmt.Sprintf("id-%x", m.ID)
		}
		list = append(list, name+"="+m.URL)
	}
	return strings.Join(list, ","), nil
}
