package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/server"
)

func TestPeerFlags(t *testing.T) {
	const three = "n1=http://127.0.0.1:1,n2=http://127.0.0.1:2,n3=http://127.0.0.1:3"
	secured := []string{"--peer-cert", "c", "--peer-key", "k", "--peer-ca", "a"}
	for _, c := range []struct {
		args     []string
		refused  string
		insecure bool
	}{
		{args: nil},
		{args: []string{"--node", "n1", "--peers", three}},
		{args: []string{"--node", "n1", "--peers", "n1=http://127.0.0.1:1"}},
		{args: append([]string{"--node", "n1", "--peers", "n1=https://a.example:7422"}, secured...)},
		{args: []string{"--node", "n1", "--peers", "n1=http://a.example:7422"}, insecure: true},
		{args: []string{"--node", "n1"}, refused: "--node and --peers belong together"},
		{args: []string{"--peers", three}, refused: "--node and --peers belong together"},
		{args: []string{"--peer-cert", "c"}, refused: "expected --node and --peers, too"},
		{args: []string{"--node", "n4", "--peers", three}, refused: "expected one of the names in --peers"},
		// A newcomer may name itself and any member. What founds is looked at by the founder.
		{args: []string{"--node", "n1", "--peers", "n1=http://127.0.0.1:1,n2=http://127.0.0.1:2"}},
		{args: []string{"--node", "n1", "--peers", "n1=http://127.0.0.1:1,n1=http://127.0.0.1:2,n3=http://127.0.0.1:3"}, refused: "each name and each URL once"},
		{args: []string{"--node", "n1", "--peers", "n1=http://127.0.0.1:1,n2=http://127.0.0.1:1,n3=http://127.0.0.1:3"}, refused: "each name and each URL once"},
		{args: []string{"--node", "n1", "--peers", "n1"}, refused: "expected NAME=URL"},
		{args: []string{"--node", "n/1", "--peers", "n/1=http://127.0.0.1:1"}, refused: "expected NAME=URL"},
		{args: []string{"--node", "n1", "--peers", "n1=127.0.0.1:1"}, refused: "expected a URL such as"},
		{args: []string{"--node", "n1", "--peers", "n1=http://127.0.0.1"}, refused: "expected a URL with a port"},
		{args: []string{"--node", "n1", "--peers", "n1=http://127.0.0.1:1/x"}, refused: "expected a URL such as"},
		{args: []string{"--node", "n1", "--peers", "n1=https://127.0.0.1:1"}, refused: "https needs --peer-cert"},
		{args: []string{"--node", "n1", "--peers", "n1=http://a.example:7422"}, refused: "expected https: others can reach it"},
		{args: append([]string{"--node", "n1", "--peers", three}, secured...), refused: "expected https, as --peer-cert is given"},
		{args: append([]string{"--node", "n1", "--peers", three}, secured[:4]...), refused: "belong together; expected all three"},
		{args: []string{"--node", "n1", "--peers", three, "--peer-listen", ":7422"}, refused: "without TLS among peers"},
		{args: []string{"--node", "n1", "--peers", three, "--peer-listen", "off"}, refused: "expected an address"},
	} {
		var p peerFlags
		cmd := &cobra.Command{}
		p.add(cmd.Flags())
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		_, err := p.validate(cmd, server.StoreEmbedded, c.insecure)
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%q: %v, expected %q", c.args, err, c.refused)
		}
	}
	p := peerFlags{node: "n1", peers: []string{"n1=http://127.0.0.1:1"}}
	if _, err := p.validate(&cobra.Command{}, server.StoreEtcd, false); err == nil {
		t.Error("peers with --store etcd are not refused")
	}
}
