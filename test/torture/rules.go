package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// network holds the addresses of all nodes; the runner is .1.
	network = "10.77.0."
	// relayMark is on the packets of relays, which are not redirected again.
	relayMark = 7
	// relayPort is where a node's relay listens.
	relayPort = 15001
)

// address is a node's, by its place in the world.
func (w world) address(node string) string {
	return fmt.Sprintf("%s%d", network, 11+slices.Index(w.nodes(), node))
}

// rulesets are the rules of nftables of every node while these faults are on. They are
// for tables that the node has, and replace what is in them.
func (w world) rulesets(on []fault) map[string]string {
	input, redirect := map[string][]string{}, map[string][]string{}
	drop := func(from, to []string, condition string) {
		for _, t := range to {
			for _, f := range from {
				if f == t {
					continue
				}
				input[t] = append(input[t], fmt.Sprintf("ip saddr %s %sdrop", w.address(f), condition))
			}
		}
	}
	for _, f := range on {
		switch f.kind {
		case cut, flap:
			drop(f.a, f.b, "")
			drop(f.b, f.a, "")
		case oneWay:
			drop(f.a, f.b, "")
		case loss:
			condition := fmt.Sprintf("numgen random mod 100 < %d ", f.percent)
			drop(f.a, f.b, condition)
			drop(f.b, f.a, condition)
		case delay:
			for _, from := range f.a {
				for _, to := range f.b {
					if from == to {
						continue
					}
					redirect[from] = append(redirect[from], w.address(to))
				}
			}
		}
	}
	all := map[string]string{}
	for _, n := range w.nodes() {
		var s strings.Builder
		s.WriteString("flush table inet torture\n")
		for _, rule := range input[n] {
			fmt.Fprintf(&s, "add rule inet torture arrive %s\n", rule)
		}
		for _, to := range unique(redirect[n]) {
			which := fmt.Sprintf("meta mark != %d ip daddr %s tcp dport { 2379, 2380, 7420, 7421, 7422 }", relayMark, to)
			fmt.Fprintf(&s, "add rule inet torture divert %s redirect to :%d\n", which, relayPort)
			// Connections from before are reset, so that new ones go through the relay.
			fmt.Fprintf(&s, "add rule inet torture leave %s reject with tcp reset\n", which)
		}
		all[n] = s.String()
	}
	return all
}

func unique(s []string) []string {
	set := map[string]bool{}
	for _, x := range s {
		set[x] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// tables are made once in every node. Their chains stay, as a connection that was
// redirected needs them.
const tables = `table inet torture {
	chain arrive { type filter hook input priority 0; policy accept; }
	chain divert { type nat hook output priority -100; policy accept; }
	chain leave { type filter hook output priority 0; policy accept; }
}
`
