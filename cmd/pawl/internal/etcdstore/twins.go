package etcdstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/founding"
)

// A member's processes, as one of its peers hears them. Each process draws a name at its
// start, its visit, and sends it when it asks about its own member. One visit that
// follows another is a restart. An earlier one that still asks after a later one has
// begun is a second process with the same member: a machine that was copied.
//
// A request may lie in a peer that is paused until its sender is long gone. So an asker
// gets a mark, a new one for each later visit, and sends it with its next request: an
// earlier visit that sends the mark of a later one was alive after that one had begun.
// The later one is told to stop.
type visits struct {
	latest, mark string
	// earlier ones, the one that asked last at the end: one that is alive stays among them.
	earlier []string
	// twice: an earlier one is alive beside the latest.
	twice bool
}

// earlierKept bounds how many earlier visits of a member are kept.
const earlierKept = 8

// hear takes in a request of a member's process, and returns the mark for its next one
// and whether it must stop.
func (p *peering) hear(member uint64, visit, mark string) (next string, twin bool) {
	if len(visit) != len(p.visit) {
		return "", false // of another version
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.heard[member]
	switch {
	case v == nil:
		v = &visits{latest: visit, mark: rand.Text()}
		p.heard[member] = v
	case visit == v.latest:
		return v.mark, v.twice
	case slices.Contains(v.earlier, visit):
		v.twice = v.twice || mark == v.mark
		v.keep(visit)
	default:
		v.keep(v.latest)
		v.latest, v.mark, v.twice = visit, rand.Text(), false
	}
	return v.mark, false
}

// keep notes an earlier visit that was heard of last.
func (v *visits) keep(visit string) {
	v.earlier = slices.DeleteFunc(v.earlier, func(e string) bool { return e == visit })
	v.earlier = append(v.earlier, visit)
	v.earlier = v.earlier[max(0, len(v.earlier)-earlierKept):]
}

// markOf is the mark that a peer gave last.
func (p *peering) markOf(at string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.marks[at]
}

func (p *peering) keepMark(at, mark string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.marks[at] = mark
}

// look asks every known server, and this server's own address.
func (p *peering) look(ctx context.Context, self founding.Self) (map[Peer]answer, []founding.Peer) {
	own := p.own()
	home := make(chan string, 1)
	go func() {
		a, err := p.ask(ctx, own.URL, 0)
		if err == nil && a.Name == own.Name && a.Visit != p.visit && (p.etcd.Load() == nil || a.ID == self.ID) {
			home <- "one answers at its own address " + own.URL
			return
		}
		home <- ""
	}()
	answers := p.askAll(ctx, self.ID)
	peers := p.seenBy(answers, self)
	if twin := <-home; twin != "" {
		peers = append(peers, founding.Peer{Name: own.Name, State: founding.Member, First: self.First, Twin: twin})
	}
	return answers, peers
}

// twinOf says how an answer shows a second process of this server's member.
func (p *peering) twinOf(peer Peer, a answer, self founding.Self) string {
	switch {
	case a.err != nil || self.ID == 0 || a.Cluster != self.Cluster:
		return ""
	case a.Twin:
		return a.Name + " hears it"
	case a.ID == self.ID && a.Visit != p.visit:
		return fmt.Sprintf("one answers at %s as %s", peer.URL, a.Name)
	}
	return ""
}
