package main

import (
	"net"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/peerconn"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/server"
	"github.com/pawlproject/pawl/internal/bearer"
)

// peerFlags are the flags of a server with peers.
type peerFlags struct {
	node, listen string
	peers        []string
	tls          peerconn.Files
}

func (p *peerFlags) add(f *pflag.FlagSet) {
	f.StringVar(&p.node, "node", "", "name of this server among --peers")
	f.StringSliceVar(&p.peers, "peers", nil, "servers that keep the cell together, NAME=URL, three or five; the first one founds it")
	f.StringVar(&p.listen, "peer-listen", "", "address for peers; absent: that of this server's URL in --peers")
	f.StringVar(&p.tls.Cert, "peer-cert", "", "certificate, PEM, that this server shows its peers")
	f.StringVar(&p.tls.Key, "peer-key", "", "its key, PEM")
	f.StringVar(&p.tls.CA, "peer-ca", "", "authorities, PEM, of the peers' certificates")
}

// validate returns the zero value without peers.
func (p *peerFlags) validate(cmd *cobra.Command, store string, insecure bool) (q server.Quorum, err error) {
	files := [...]string{p.tls.Cert, p.tls.Key, p.tls.CA}
	given := 0
	for _, path := range files {
		if path != "" {
			given++
		}
	}
	switch {
	case p.node == "" && len(p.peers) == 0:
		if given > 0 || p.listen != "" {
			return q, exit.Usage(cmd, "--peer-listen, --peer-cert, --peer-key and --peer-ca are for a server with peers; expected --node and --peers, too")
		}
		return q, nil
	case p.node == "" || len(p.peers) == 0:
		return q, exit.Usage(cmd, "--node and --peers belong together; expected both")
	case store != server.StoreEmbedded:
		return q, exit.Usage(cmd, "--node and --peers are for the embedded store, and --store is %s", store)
	case given != 0 && given != len(files):
		return q, exit.Usage(cmd, "--peer-cert, --peer-key and --peer-ca belong together; expected all three")
	}
	q = server.Quorum{Node: p.node, TLS: p.tls, Listen: p.listen}
	if q.Peers, err = p.parse(cmd, insecure); err != nil {
		return q, err
	}
	for _, peer := range q.Peers {
		if peer.Name != p.node {
			continue
		}
		u, _ := url.Parse(peer.URL) // it was parsed before
		if q.Listen == "" {
			q.Listen = u.Host
		}
		closed := ""
		if !insecure && !p.tls.On() {
			closed = "without TLS among peers (--peer-cert, --peer-key, --peer-ca)"
		}
		if q.Listen == server.Off {
			return q, exit.Usage(cmd, "--peer-listen is %q; expected an address, such as that of this server in --peers", q.Listen)
		}
		if err := server.CheckAddress("--peer-listen", q.Listen, closed); err != nil {
			return q, exit.Usage(cmd, "%v", err)
		}
		return q, nil
	}
	return q, exit.Usage(cmd, "--node is %q; expected one of the names in --peers", p.node)
}

func (p *peerFlags) parse(cmd *cobra.Command, insecure bool) ([]etcdstore.Peer, error) {
	var peers []etcdstore.Peer
	for _, text := range p.peers {
		name, at, ok := strings.Cut(text, "=")
		if !ok || !cellName.MatchString(name) {
			return nil, exit.Usage(cmd, "--peers has %q; expected NAME=URL, such as n1=https://a.example:7422, with a name of 1 to 64 letters, digits, '.', '_' or '-'", text)
		}
		at, err := peerURL(at, p.tls.On(), insecure)
		if err != "" {
			return nil, exit.Usage(cmd, "--peers has %q; %s", text, err)
		}
		for _, other := range peers {
			if other.Name == name || other.URL == at {
				return nil, exit.Usage(cmd, "--peers has %s=%s and %s=%s; expected each name and each URL once", other.Name, other.URL, name, at)
			}
		}
		peers = append(peers, etcdstore.Peer{Name: name, URL: at})
	}
	if n := len(peers); n > etcdstore.MembersMax {
		return nil, exit.Usage(cmd, "--peers has %d names; expected 3, 5 or %d: every write waits for a majority of them", n, etcdstore.MembersMax)
	}
	return peers, nil
}

// peerURL checks where a peer is reached; it returns the URL as etcd compares it, and
// else what is wrong with it.
func peerURL(text string, secured, insecure bool) (at, wrong string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return "", "expected a URL such as https://a.example:7422"
	}
	if u.Port() == "" || u.Port() == "0" {
		return "", "expected a URL with a port, such as https://a.example:7422"
	}
	switch {
	case u.Scheme == "https" && !secured:
		return "", "https needs --peer-cert, --peer-key and --peer-ca"
	case u.Scheme == "http" && secured:
		return "", "expected https, as --peer-cert is given"
	case u.Scheme == "http" && !insecure && !bearer.Loopback(u.Hostname()):
		return "", "expected https: others can reach it; --insecure lets everybody who can reach it change the store"
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), u.Port()), ""
}
