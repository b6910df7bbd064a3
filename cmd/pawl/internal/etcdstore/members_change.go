package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	etcderrors "go.etcd.io/etcd/server/v3/etcdserver/errors"
)

// MemberStatus is a member as this server sees it.
type MemberStatus struct {
	Name, URL string
	// ID is 0 for one that has not joined.
	ID uint64
	// Learner: it catches up. Leads, Answers: it leads, and this server reaches it.
	Learner, Leads, Answers bool
	// Own: it is this server's.
	Own bool
	// Applied is the last entry of the log that it has applied; 0: unknown.
	Applied uint64
}

// MembersMax bounds how many voters a quorum has.
const MembersMax = 7

// lagMax is how many entries a member may be behind and still count as up to date.
const lagMax = 5000

// Members lists the members, and those that may join.
func (q *Quorum) Members(ctx context.Context) ([]MemberStatus, error) {
	if !q.begun.Load() {
		return nil, q.noPlace()
	}
	own := uint64(q.etcd.Server.MemberID())
	leader := uint64(q.etcd.Server.Leader())
	answers := q.peers.askAll(ctx, 0)
	var all []MemberStatus
	for _, m := range q.peers.named(q.etcd) {
		s := MemberStatus{Name: m.Name, URL: m.URL, ID: m.ID, Learner: m.Learner, Leads: m.ID == leader, Own: m.ID == own}
		if s.Own {
			s.Answers, s.Applied = true, q.etcd.Server.AppliedIndex()
		}
		for _, a := range answers {
			if a.err == nil && a.ID == m.ID {
				s.Answers, s.Applied = true, a.Applied
			}
		}
		all = append(all, s)
	}
	for _, x := range q.expectedNow() {
		if slices.ContainsFunc(all, func(s MemberStatus) bool { return s.Name == x.Name || s.URL == x.URL }) {
			continue
		}
		all = append(all, MemberStatus{Name: x.Name, URL: x.URL})
	}
	slices.SortFunc(all, func(a, b MemberStatus) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// expectedNow are the servers that may join: of --peers, and of the roster.
func (q *Quorum) expectedNow() []expected {
	var all []expected
	for _, peer := range q.opts.Peers {
		if x, known := q.peers.expects(q.etcd, peer.Name); known && !x.Removed {
			all = append(all, x)
		}
	}
	for _, x := range expectations(q.etcd) {
		if !x.Removed && !slices.ContainsFunc(all, func(has expected) bool { return has.Name == x.Name }) {
			all = append(all, x)
		}
	}
	return all
}

// AddMember lets a server of this name join from this address; it does so when it is
// started on an empty folder. replaces is removed once it is a voter; empty: none is.
func (q *Quorum) AddMember(ctx context.Context, name, at, replaces string) error {
	if err := q.mayChange(); err != nil {
		return err
	}
	if u, err := url.Parse(at); err != nil || (u.Scheme == "https") != q.opts.TLS.On() || u.Scheme != "https" && u.Scheme != "http" || u.Port() == "" || u.Path != "" {
		return fmt.Errorf("%s=%s: expected a URL with a port such as the members have, %s", name, at, q.peers.own().URL)
	}
	ctx, cancel := context.WithTimeout(ctx, joinMax)
	defer cancel()
	voters, replacesOne := 0, replaces == ""
	for _, m := range q.peers.named(q.etcd) {
		if !m.Learner {
			voters++
		}
		replacesOne = replacesOne || m.Name == replaces
		switch {
		case m.Name == name && m.URL == at:
			return fmt.Errorf("%s is a member already, at %s", name, at)
		case m.Name == name && replaces != name:
			return fmt.Errorf("%s is a member already, at %s; to move it: pawl member replace %s %s=%s", name, m.URL, name, name, at)
		case m.URL == at && replaces != m.Name:
			return fmt.Errorf("%s is the address of the member %s", at, m.Name)
		}
	}
	if !replacesOne {
		return fmt.Errorf("%s is no member; expected one of %s", replaces, strings.Join(q.names(), ", "))
	}
	if replaces == "" && voters >= MembersMax {
		return fmt.Errorf("there are %d voters, and every write waits for a majority of them; expected at most %d", voters, MembersMax)
	}
	x := expected{Name: name, URL: at, Replaces: replaces}
	if replaces == name {
		x.Replaces = "" // a server that joins takes the place of the member of its name
	}
	err := putExpected(ctx, q.etcd, x)
	if !errors.Is(err, etcderrors.ErrNoSpace) {
		return unsure(err)
	}
	// With a member that does not answer its alarm goes, too.
	if replaces != "" {
		all, err := q.Members(ctx)
		if err == nil && mayRemove(all, replaces) == nil {
			err = q.peers.removeGone(ctx, q.etcd, replaces)
		}
		if err != nil {
			return fmt.Errorf("the store is full, and %s cannot be removed before %s has joined: %w", replaces, name, err)
		}
	}
	if err := q.noteWhenRoom(ctx, x); err != nil {
		return fmt.Errorf("note that %s may join: %w", name, err)
	}
	return nil
}

// noteWhenRoom puts an entry of the roster into a store that is full, as soon as the
// leader has made room.
func (q *Quorum) noteWhenRoom(ctx context.Context, x expected) error {
	for {
		err := putExpected(ctx, q.etcd, x)
		if !errors.Is(err, etcderrors.ErrNoSpace) || !q.pause(ctx) {
			return err
		}
	}
}

// RemoveMember removes a member for good, or has a server that has not joined not do
// so. It is refused where the others would be too few.
func (q *Quorum) RemoveMember(ctx context.Context, name string) error {
	if err := q.mayChange(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, joinMax)
	defer cancel()
	all, err := q.Members(ctx)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(all, func(s MemberStatus) bool { return s.Name == name }) {
		return fmt.Errorf("%s is no member; expected one of %s", name, strings.Join(q.names(), ", "))
	}
	if err := mayRemove(all, name); err != nil {
		return err
	}
	return unsure(q.dismiss(ctx, name))
}

// ErrNoMajority: the members cannot be changed, since no majority of them answers.
var ErrNoMajority = errors.New("the members cannot be changed")

// mayChange says why this server cannot change the members now; nil: it can.
func (q *Quorum) mayChange() error {
	if !q.begun.Load() {
		return q.noPlace()
	}
	if what := q.Waits(); what != "" && q.etcd.Server.Leader() == 0 {
		return fmt.Errorf("%w: this server waits for %s", ErrNoMajority, what)
	}
	return nil
}

// unsure says of a change that no majority took in time that it may still take effect.
// Asked for again at another server, it could be refused although it was made: so it is
// no ErrNoMajority.
func unsure(err error) error {
	for _, late := range []error{
		context.DeadlineExceeded, etcderrors.ErrTimeout, etcderrors.ErrTimeoutDueToLeaderFail, etcderrors.ErrTimeoutDueToConnectionLost,
	} {
		if errors.Is(err, late) {
			return errors.New("no majority of the members took the change in time; whether it takes effect later is unknown, and \"pawl member list\" shows it")
		}
	}
	return err
}

// mayRemove says why the quorum needs a member; nil: it does not.
func mayRemove(all []MemberStatus, name string) error {
	var left, up []string
	most := uint64(0)
	voter := false
	for _, s := range all {
		most = max(most, s.Applied)
		voter = voter || s.Name == name && s.ID != 0 && !s.Learner
	}
	if !voter {
		return nil
	}
	for _, s := range all {
		if s.ID == 0 || s.Learner || s.Name == name {
			continue
		}
		left = append(left, s.Name)
		if s.Answers && s.Applied+lagMax >= most {
			up = append(up, s.Name)
		}
	}
	if len(left) == 0 {
		return fmt.Errorf("%s is the only member: without it there is no cell", name)
	}
	if need := len(left)/2 + 1; len(up) < need {
		return fmt.Errorf("the quorum needs %s: without it %s are left, of which %d must be up and caught up, and %d are", name, strings.Join(left, ", "), need, len(up))
	}
	return nil
}

func (q *Quorum) names() []string {
	var names []string
	for _, m := range q.peers.named(q.etcd) {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// dismiss removes a member by its name for good: it may not join again. It fails where
// the others would be too few without it.
func (q *Quorum) dismiss(ctx context.Context, name string) error {
	x := expected{Name: name, Removed: true}
	was, known := q.peers.expects(q.etcd, name)
	if known {
		x.URL = was.URL
	}
	var remove []memberShown
	own := false
	for _, m := range q.peers.named(q.etcd) {
		if m.Name == name {
			remove = append(remove, m)
			own = own || m.ID == uint64(q.etcd.Server.MemberID())
			x.URL = cmp.Or(x.URL, m.URL)
		}
	}
	// First the note: a member that removes itself can write none afterwards. In a store
	// that is full the note must wait; it may be full by what this member has raised.
	err := putExpected(ctx, q.etcd, x)
	full := errors.Is(err, etcderrors.ErrNoSpace) && !own
	if err != nil && !full {
		return fmt.Errorf("note that %s was removed: %w", name, err)
	}
	for _, m := range remove {
		err := removeMember(ctx, q.etcd, m.ID)
		if err != nil && !full {
			err = errors.Join(err, putExpected(context.WithoutCancel(ctx), q.etcd, expected{Name: name, URL: m.URL}))
		}
		if err != nil {
			return err
		}
	}
	if !full {
		return nil
	}
	if err := q.noteWhenRoom(ctx, x); err != nil {
		return fmt.Errorf("%s is removed, but the store is full and cannot note that it may not join again; when there is room, remove it once more: %w", name, err)
	}
	return nil
}
