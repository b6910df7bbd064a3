package etcdstore

import (
	"fmt"
	"net/http"
	"net/url"

	"go.etcd.io/etcd/client/pkg/v3/types"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/peerconn"
)

// hosts are those whose certificates may connect: of members that were removed, too, so
// that they are told.
func (p *peering) hosts() []string { return hostsOf(p.servers(true)) }

func hostsOf(peers []Peer) []string {
	var hosts []string
	for _, peer := range peers {
		if u, err := url.Parse(peer.URL); err == nil && u.Hostname() != "" {
			hosts = append(hosts, u.Hostname())
		}
	}
	return hosts
}

// isMembers reports whether a request is from the host of a server that is a member or
// may become one. Without TLS any is.
func (p *peering) isMembers(r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return p.tls == nil
	}
	for _, host := range hostsOf(p.all()) {
		if r.TLS.PeerCertificates[0].VerifyHostname(host) == nil {
			return true
		}
	}
	return false
}

// membersOnly refuses requests from hosts of members that were removed, on open
// connections as well. They are only told that they were.
//
// etcd ends a member that is told so. A server that is behind knows the host of a member
// that was removed and has joined again, and not yet the new member: it says nothing of it.
func (p *peering) membersOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pathMember || p.isMembers(r) {
			next.ServeHTTP(w, r)
			return
		}
		if from, err := types.IDFromString(r.Header.Get("X-Server-From")); err == nil && !p.removed(uint64(from)) {
			http.Error(w, fmt.Sprintf("this server does not know the member %s", from), http.StatusServiceUnavailable)
			return
		}
		http.Error(w, fmt.Sprintf("the member at %s was removed; to let it join again: pawl member add NAME=URL", peerconn.Hosts(r.TLS.PeerCertificates[0])), http.StatusGone)
	})
}

// removed reports whether a member is known to be removed.
func (p *peering) removed(id uint64) bool {
	e := p.etcd.Load()
	return e != nil && isRemoved(e, id)
}
