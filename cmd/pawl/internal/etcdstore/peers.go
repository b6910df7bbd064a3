package etcdstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/etcdhttp"
	"go.uber.org/zap"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/founding"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/peerconn"
)

// Peer is a server of a quorum: its name, and where the others reach its member.
type Peer struct{ Name, URL string }

// Bounds of what peers ask each other.
const (
	// askMax is how long one answer may take, joinMax that to a join, which changes
	// the cluster.
	askMax  = 2 * time.Second
	joinMax = 10 * time.Second
	// peerAnswerMax bounds an answer in bytes.
	peerAnswerMax = 1 << 20
	// peerHeaderMax is how long the header of a peer's request may take.
	peerHeaderMax = 10 * time.Second
)

// Paths at the peers' address. The rest there is etcd's.
const (
	pathMember = "/pawl/v1/member"
	pathJoin   = "/pawl/v1/join"
)

// about is what a server says of itself to a peer.
type about struct {
	Name  string         `json:"name"`
	URL   string         `json:"url"`
	State founding.State `json:"state"`
	// First name of its --peers.
	First string `json:"first"`
	// Visit is drawn at each start.
	Visit string `json:"visit"`
	// Cluster, ID, Leader and the numbers are those of its member; zero: none.
	Cluster uint64        `json:"cluster,string"`
	ID      uint64        `json:"id,string"`
	Leader  uint64        `json:"leader,string"`
	Term    uint64        `json:"term,string"`
	Applied uint64        `json:"applied,string"`
	Members []memberShown `json:"members,omitempty"`
	// Removed and Acknowledged are of the member that was asked about.
	Removed      bool   `json:"removed,omitempty"`
	Acknowledged uint64 `json:"acknowledged,string"`
	// Twin: the asker is to stop, since another process with its member runs. Mark is what
	// it sends when it asks again.
	Twin bool   `json:"twin,omitempty"`
	Mark string `json:"mark,omitempty"`
}

// memberShown is a member of the cluster as a server knows it.
type memberShown struct {
	ID      uint64 `json:"id,string"`
	Name    string `json:"name"`
	URL     string `json:"url"`
	Learner bool   `json:"learner,omitempty"`
}

// joining is a request to be let in.
type joining struct {
	Name  string `json:"name"`
	URL   string `json:"url"`
	Visit string `json:"visit"`
}

// joined is its answer: the id of the new learner.
type joined struct {
	ID uint64 `json:"id,string"`
}

// peering is a server among its peers: what it answers them, and how it asks them.
type peering struct {
	opts   QuorumOptions
	visit  string
	tls    *peerconn.TLS
	client *http.Client
	web    *http.Server

	state atomic.Value // founding.State
	// etcd is the member once it runs, and rest what answers for it.
	etcd atomic.Pointer[embed.Etcd]
	rest atomic.Pointer[http.Handler]
	// changes lets one join after the other in.
	changes sync.Mutex
	// reached is what others are known to have acknowledged, by their id.
	mu      sync.Mutex
	reached map[uint64]uint64
	// heard are the processes of the members, by their id, and marks what peers gave this
	// one, by their address.
	heard map[uint64]*visits
	marks map[string]string
	// more are members that are not among --peers.
	more []Peer
}

func newPeering(opts QuorumOptions) (*peering, error) {
	p := &peering{opts: opts, visit: rand.Text(), reached: map[uint64]uint64{}, heard: map[uint64]*visits{}, marks: map[string]string{}}
	p.state.Store(founding.Empty)
	var err error
	if p.tls, err = peerconn.Load(opts.TLS, opts.Clock, opts.Logger); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFiles, err)
	}
	dialer := &net.Dialer{Timeout: askMax}
	t := &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 1, IdleConnTimeout: peerconn.ReadMax / 2}
	if p.tls != nil {
		t.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			d := tls.Dialer{NetDialer: dialer, Config: p.tls.Client(host)}
			return d.DialContext(ctx, network, address)
		}
	}
	p.client = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	p.web = p.answers()
	return p, nil
}

// answers is what answers the peers.
func (p *peering) answers() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathMember, p.answerMember)
	mux.HandleFunc("POST "+pathJoin, p.answerJoin)
	mux.HandleFunc("POST "+pathLead, p.answerLead)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if h := p.rest.Load(); h != nil {
			(*h).ServeHTTP(w, r)
			return
		}
		http.Error(w, "the member has not started", http.StatusServiceUnavailable)
	})
	web := &http.Server{Handler: p.membersOnly(mux), ReadHeaderTimeout: peerHeaderMax, ErrorLog: zap.NewStdLog(zap.NewNop())}
	web.Protocols = new(http.Protocols)
	web.Protocols.SetHTTP1(true)
	return web
}

// serve answers at a listener, which it closes in the end.
func (p *peering) serve(l net.Listener) {
	l = peerconn.Listen(l, p.opts.Clock)
	if p.tls != nil {
		l = tls.NewListener(l, p.tls.Server(p.hosts))
	}
	_ = p.web.Serve(l) // it ends when the store closes
}

func (p *peering) close() {
	_ = p.web.Close() // streams of peers are ended with it
	p.client.CloseIdleConnections()
}

// runs hands the member over to the peers.
func (p *peering) runs(e *embed.Etcd) {
	h := etcdhttp.NewPeerHandler(e.GetLogger(), e.Server)
	p.rest.Store(&h)
	p.etcd.Store(e)
}

// leaves has no more said of the member, which is about to stop. Its streams go on until
// it has: it hands leadership over by them.
func (p *peering) leaves() { p.etcd.Store(nil) }

// all are the servers that are known: of --peers, of the cluster, and those that may
// join it. What was removed is none of them.
func (p *peering) all() []Peer { return p.servers(false) }

// servers are all, with those that were removed or without.
func (p *peering) servers(removed bool) []Peer {
	var members []memberShown
	var roster []expected
	if e := p.etcd.Load(); e != nil {
		members, roster = membersOf(e), expectations(e)
	}
	gone := func(peer Peer) bool {
		return !removed && slices.ContainsFunc(roster, func(x expected) bool {
			return x.Removed && (x.Name == peer.Name || peer.Name == "" && x.URL == peer.URL)
		})
	}
	var all []Peer
	add := func(peer Peer) {
		if peer.URL != "" && !slices.ContainsFunc(all, func(has Peer) bool { return has.URL == peer.URL }) {
			all = append(all, peer)
		}
	}
	told := slices.Clone(p.opts.Peers)
	p.mu.Lock()
	told = append(told, p.more...)
	p.mu.Unlock()
	for _, x := range roster {
		told = append(told, Peer{x.Name, x.URL})
	}
	for _, peer := range told {
		if !gone(peer) {
			add(peer)
		}
	}
	for _, m := range members {
		add(Peer{m.Name, m.URL})
	}
	return all
}

func (p *peering) own() Peer {
	for _, peer := range p.opts.Peers {
		if peer.Name == p.opts.Node {
			return peer
		}
	}
	return Peer{Name: p.opts.Node}
}

func membersOf(e *embed.Etcd) []memberShown {
	var all []memberShown
	for _, m := range e.Server.Cluster().Members() {
		all = append(all, memberShown{ID: uint64(m.ID), Name: m.Name, URL: strings.Join(m.PeerURLs, ","), Learner: m.IsLearner})
	}
	return all
}

// about answers for this server. of is the id of the asker's member; 0: none.
func (p *peering) about(of uint64) about {
	own := p.own()
	a := about{Name: own.Name, URL: own.URL, State: p.state.Load().(founding.State), First: p.opts.Peers[0].Name, Visit: p.visit}
	e := p.etcd.Load()
	if e == nil {
		return a
	}
	s := e.Server
	a.Cluster, a.ID = uint64(s.Cluster().ID()), uint64(s.MemberID())
	a.Leader, a.Term, a.Applied = uint64(s.Leader()), s.Term(), s.AppliedIndex()
	a.Members = membersOf(e)
	if of != 0 {
		p.noteReached(e)
		p.mu.Lock()
		a.Acknowledged = p.reached[of]
		p.mu.Unlock()
		a.Removed = isRemoved(e, of)
	}
	return a
}

func (p *peering) answerMember(w http.ResponseWriter, r *http.Request) {
	var of uint64
	asked := r.URL.Query()
	_, _ = fmt.Sscanf(asked.Get("id"), "%d", &of) // 0 where there is none
	a := p.about(of)
	if !p.isMembers(r) {
		a.Members, a.Leader, a.Term, a.Applied, a.Acknowledged = nil, 0, 0, 0, 0
	}
	// A host that is no member's any more could pass for a twin.
	if slices.ContainsFunc(a.Members, func(m memberShown) bool { return m.ID == of }) {
		a.Mark, a.Twin = p.hear(of, asked.Get("visit"), asked.Get("mark"))
	}
	// One that is kept on the way would show the process before a restart.
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // the asker asks again
}

// ask asks a peer about itself, and about of, this server's member; 0: about none.
func (p *peering) ask(ctx context.Context, at string, of uint64) (about, error) {
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	var a about
	if of == 0 {
		return a, p.call(ctx, http.MethodGet, at+pathMember, nil, &a)
	}
	err := p.call(ctx, http.MethodGet, fmt.Sprintf("%s%s?id=%d&visit=%s&mark=%s", at, pathMember, of, p.visit, url.QueryEscape(p.markOf(at))), nil, &a)
	if err == nil {
		p.keepMark(at, a.Mark)
	}
	return a, err
}

// refusedError is the answer of a peer that says no.
type refusedError struct {
	code int
	text string
}

func (e *refusedError) Error() string { return e.text }

func (p *peering) call(ctx context.Context, method, to string, in, out any) error {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(raw)
	}
	r, err := http.NewRequestWithContext(ctx, method, to, body)
	if err != nil {
		return err
	}
	res, err := p.client.Do(r)
	if err != nil {
		if ue := (*url.Error)(nil); errors.As(err, &ue) {
			err = ue.Err
		}
		return err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, peerAnswerMax))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return &refusedError{res.StatusCode, strings.TrimSpace(string(raw))}
	}
	return json.Unmarshal(raw, out)
}

// askAll asks every known server but this one, at once.
func (p *peering) askAll(ctx context.Context, of uint64) map[Peer]answer {
	own := p.own()
	all := make(map[Peer]answer)
	var mu sync.Mutex
	var asks sync.WaitGroup
	for _, peer := range p.all() {
		if peer.URL == own.URL {
			continue
		}
		asks.Go(func() {
			a, err := p.ask(ctx, peer.URL, of)
			mu.Lock()
			defer mu.Unlock()
			all[peer] = answer{a, err}
		})
	}
	asks.Wait()
	return all
}

type answer struct {
	about
	err error
}

// seenBy turns answers into what the decision takes.
func (p *peering) seenBy(answers map[Peer]answer, self founding.Self) []founding.Peer {
	var peers []founding.Peer
	for peer, a := range answers {
		name := peer.Name
		if a.err == nil && a.Name != "" {
			name = a.Name
		}
		peers = append(peers, founding.Peer{
			Name: name, Known: slices.Contains(p.opts.Peers, peer), Silent: a.err != nil,
			State: a.State, First: a.First, Cluster: a.Cluster, Removed: a.Removed, Acknowledged: a.Acknowledged,
			Applied: a.Applied, Leader: a.Leader, Voters: len(votersOf(a.Members)), Twin: p.twinOf(peer, a, self),
		})
	}
	slices.SortFunc(peers, func(a, b founding.Peer) int { return strings.Compare(a.Name, b.Name) })
	return peers
}
