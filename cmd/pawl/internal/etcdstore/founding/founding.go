package founding

import (
	"fmt"
	"slices"
	"strings"
)

// State is what a server says of itself to its peers.
type State string

// The states.
const (
	// Empty: its folder holds no member.
	Empty State = "empty"
	// Joining: it asks to be let in, and its folder holds no member that has started.
	Joining State = "joining"
	// Founding: its member has started, and waits for a majority of the names.
	Founding State = "founding"
	// Starting: its folder holds a member, which has not started.
	Starting State = "starting"
	// Member: its member runs.
	Member State = "member"
)

// Self is what a server knows without its peers.
type Self struct {
	// Name of this server, and the first one of its --peers.
	Name, First string
	// Served: the folder holds a member that has started once. Cluster, ID and Last
	// are that member's: its cluster, its id, and the last entry of its log.
	Served            bool
	Cluster, ID, Last uint64
	// Alone: that member is the only voter, and no mark in the folder says that it may be.
	Alone bool
}

// Peer is what one other server answered.
type Peer struct {
	Name string
	// Known: the name is one of this server's own --peers. Others are known from the
	// folder, or from a peer.
	Known bool
	// Silent: it did not answer.
	Silent bool
	State  State
	// First is the first name of its --peers.
	First string
	// Cluster of its member; 0: none.
	Cluster uint64
	// Removed: it knows that this server's member was removed from the cluster.
	Removed bool
	// Acknowledged is the last entry that it knows this server's member to have
	// acknowledged; 0: it knows nothing of it.
	Acknowledged uint64
	// Applied is the last entry that its member has applied, Leader the member that it
	// follows, or 0, and Voters how many voters it knows.
	Applied, Leader uint64
	Voters          int
	// Twin says how it shows that a second process runs as this server; empty: it does
	// not.
	Twin string
}

// Do is what to do.
type Do string

// What can be done.
const (
	Wait   Do = "wait"
	Found  Do = "found"
	Join   Do = "join"
	Start  Do = "start"
	Refuse Do = "refuse"
)

// Reason says why a start is refused.
type Reason string

// The reasons.
const (
	// Old: the folder lacks what this member had acknowledged.
	Old Reason = "old"
	// Removed: the member is not one of the cluster any more.
	Removed Reason = "removed"
	// Foreign: the peers are of another cluster.
	Foreign Reason = "foreign"
	// Disagree: a peer was started with another first name.
	Disagree Reason = "disagree"
	// Even: an even number of servers would found the cluster.
	Even Reason = "even"
	// Twice: another process runs as this server.
	Twice Reason = "twice"
)

// Decision is what to do, and why.
type Decision struct {
	Do Do
	// Reason of a refusal.
	Reason Reason
	// Of are the names it is about: whom to join by, whom to wait for, who says so.
	Of []string
	// Unchecked, with Start: nobody answered that knows what the member had acknowledged.
	Unchecked bool
	// Why is a sentence for an operator.
	Why string
}

// Decide decides.
func Decide(self Self, peers []Peer) Decision {
	if why := Twin(self, peers); why != "" {
		return Decision{Do: Refuse, Reason: Twice, Of: []string{self.Name}, Why: why}
	}
	if self.Served {
		return decideServed(self, peers)
	}
	return decideEmpty(self, peers)
}

func decideServed(self Self, peers []Peer) Decision {
	var same, foreign, old, removed, beyond []string
	most, checked := uint64(0), false
	for _, p := range peers {
		switch {
		case p.Silent, p.Cluster == 0:
		case p.Cluster != self.Cluster:
			foreign = append(foreign, p.Name)
		default:
			same = append(same, p.Name)
			checked = checked || p.Acknowledged > 0
			if p.Removed {
				removed = append(removed, p.Name)
			}
			if p.Acknowledged > self.Last {
				old, most = append(old, p.Name), max(most, p.Acknowledged)
			}
			if self.Alone && p.Applied > self.Last {
				beyond = append(beyond, p.Name)
			}
		}
	}
	switch {
	case len(removed) > 0:
		return Decision{
			Do: Refuse, Reason: Removed, Of: removed,
			Why: fmt.Sprintf("the member %s (%x) was removed from the cluster, according to %s", self.Name, self.ID, list(removed)),
		}
	case len(old) > 0:
		return Decision{
			Do: Refuse, Reason: Old, Of: old,
			Why: fmt.Sprintf("the member %s had acknowledged entry %d, according to %s, and its folder ends with entry %d: an older copy of it, or another one", self.Name, most, list(old), self.Last),
		}
	case len(beyond) > 0:
		return Decision{
			Do: Refuse, Reason: Old, Of: beyond,
			Why: fmt.Sprintf("in the folder the member %s is the only one and ends with entry %d, and %s further: it is a copy from before the cell had other members", self.Name, self.Last, are(beyond)),
		}
	case len(foreign) > 0 && len(same) == 0:
		return Decision{
			Do: Refuse, Reason: Foreign, Of: foreign,
			Why: fmt.Sprintf("the folder is of cluster %x, and %s of another one", self.Cluster, are(foreign)),
		}
	}
	if d := decideAlone(self, peers); d.Do == Wait {
		return d
	}
	d := Decision{Do: Start, Of: same, Unchecked: !checked}
	if d.Unchecked && len(peers) > 0 {
		d.Why = "no peer answers that knows what this member had acknowledged, so nobody can tell whether the folder is up to date"
	}
	return d
}

func decideEmpty(self Self, peers []Peer) Decision {
	var by, disagree, silent, busy []string
	known := []string{self.Name}
	for _, p := range peers {
		if p.Known {
			known = append(known, p.Name)
		}
		switch {
		case !p.Silent && (p.State == Member || p.State == Founding):
			by = append(by, p.Name)
		case !p.Known:
		case p.Silent:
			silent = append(silent, p.Name)
		case p.First != self.First:
			disagree = append(disagree, fmt.Sprintf("%s (%s)", p.Name, p.First))
		case p.State != Empty:
			busy = append(busy, p.Name)
		}
	}
	switch {
	case len(by) > 0:
		return Decision{Do: Join, Of: by}
	case len(disagree) > 0:
		return Decision{
			Do: Refuse, Reason: Disagree, Of: disagree,
			Why: fmt.Sprintf("the first name of --peers is %s here, and another at %s; the first one founds the cluster, so all need the same", self.First, list(disagree)),
		}
	case self.Name != self.First:
		return Decision{Do: Wait, Of: []string{self.First}, Why: "the first of --peers founds the cluster"}
	case len(silent) > 0:
		return Decision{Do: Wait, Of: silent, Why: "this server founds the cluster when all others have answered that their folders are empty"}
	case len(busy) > 0:
		return Decision{Do: Wait, Of: busy, Why: "a folder that is not empty may hold the cluster"}
	case len(known)%2 == 0:
		n := len(known)
		return Decision{
			Do: Refuse, Reason: Even, Of: known,
			Why: fmt.Sprintf("--peers has %d names, and no member answers that this server could join; to found a cluster an odd number is expected: %d stand the loss of no more servers than %d do, and one more can fail", n, n, n-1),
		}
	}
	return Decision{Do: Found}
}

func list(names []string) string {
	slices.Sort(names)
	return strings.Join(names, ", ")
}

func are(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return list(names) + " are"
}
