package founding

import (
	"cmp"
	"fmt"
	"strings"
)

// decideAlone has a member wait that would serve by itself, until every name of --peers
// has said that it is not one of more members by now.
func decideAlone(self Self, peers []Peer) Decision {
	if !self.Alone {
		return Decision{}
	}
	var ask, follow []string
	for _, p := range peers {
		switch {
		case p.State == Starting && p.Cluster == self.Cluster && p.Voters == 1:
			// Its member runs and waits for the only voter, as a learner does.
		case p.Known && (p.Silent || p.State == Starting):
			ask = append(ask, p.Name)
		case !p.Silent && p.Cluster == self.Cluster && p.Leader != 0 && p.Leader != self.ID:
			follow = append(follow, p.Name)
		}
	}
	switch {
	case len(follow) > 0:
		return Decision{
			Do: Wait, Of: follow,
			Why: fmt.Sprintf("%s led by another member, and in this folder %s is the only one: if that stays so, the folder is from before the cell had other members", are(follow), self.Name),
		}
	case len(ask) > 0:
		return Decision{
			Do: Wait, Of: ask,
			Why: fmt.Sprintf("in this folder %s is the only member, and the folder may be from before the cell had others, which only they can tell; if they are gone for good, start it with itself alone in --peers", self.Name),
		}
	}
	return Decision{}
}

// Outgrown says why a member that is the only voter by its own log must not serve. It is
// sure, or must be seen for a while. self.Last is the last entry that the member knows
// to be committed, read after the peers had answered.
func Outgrown(self Self, peers []Peer) (why string, sure bool) {
	for _, p := range peers {
		switch {
		case p.Silent || p.Cluster == 0:
		case p.Cluster == self.Cluster && p.Applied > self.Last:
			// What a cluster of one voter has committed, that voter has.
			return fmt.Sprintf("%s is the only member in its folder and has entry %d, and %s has entry %d: the folder is from before the cell had other members", self.Name, self.Last, p.Name, p.Applied), true
		case p.Cluster == self.Cluster && p.Leader != 0 && p.Leader != self.ID:
			why = cmp.Or(why, fmt.Sprintf("%s is the only member in its folder, and %s is led by another one: the folder is from before the cell had other members", self.Name, p.Name))
		case p.Cluster != self.Cluster && p.Known && p.Voters > 1 && p.Leader != 0:
			why = cmp.Or(why, fmt.Sprintf("%s serves alone in cluster %x, and %s of --peers is one of %d members in cluster %x", self.Name, self.Cluster, p.Name, p.Voters, p.Cluster))
		}
	}
	return why, false
}

// Twin says why a second process runs as this server; empty: nobody shows one.
func Twin(self Self, peers []Peer) string {
	var how []string
	for _, p := range peers {
		if p.Twin != "" {
			how = append(how, p.Twin)
		}
	}
	if len(how) == 0 {
		return ""
	}
	return fmt.Sprintf("another process runs as the server %s: %s; two would vote as one member, so stop one of them; a copied machine needs a name, an address and an empty folder of its own", self.Name, strings.Join(how, ", "))
}
