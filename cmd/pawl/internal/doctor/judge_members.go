package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawlproject/pawl/api/linkpb"
)

const (
	// memberLag is how many entries of the log a member may be behind.
	memberLag = 5000
	lookAtNet = "start its server, or look at the network between them"
)

// seen is a member as all servers see it.
type seen struct {
	*linkpb.Member
	// by and notBy are the servers that reach it, and do not.
	by, notBy []string
	// own: its server is among those that were asked.
	own bool
	// behind is the most that one server saw it to be behind.
	behind uint64
}

// gather puts the views of all servers together, by the member's URL.
func (r *report) gather() (all []*seen, leaders map[string][]string) {
	by := map[string]*seen{}
	leaders = map[string][]string{}
	for i := range r.Servers {
		s := &r.Servers[i]
		most, asker := uint64(0), s.name()
		for _, m := range s.Members {
			most = max(most, m.GetApplied())
			if m.GetAsked() && m.GetName() != "" {
				asker = m.GetName()
			}
		}
		for _, m := range s.Members {
			x := by[m.GetUrl()]
			if x == nil {
				x = &seen{Member: m}
				by[m.GetUrl()] = x
				all = append(all, x)
			}
			x.own = x.own || m.GetAsked()
			if m.GetLeads() {
				leaders[nameOf(m)] = append(leaders[nameOf(m)], asker)
			}
			switch {
			case m.GetAnswers():
				x.by = append(x.by, asker)
				x.behind = max(x.behind, most-m.GetApplied())
			default:
				x.notBy = append(x.notBy, asker)
			}
		}
	}
	return all, leaders
}

func nameOf(m *linkpb.Member) string {
	if m.GetName() != "" {
		return m.GetName()
	}
	return m.GetUrl()
}

// members judges those of a cell whose servers keep it together.
func (r *report) members() {
	for _, s := range r.Servers {
		if s.MembersFailed != "" {
			r.add("members", Error, s.name(), "if it waits for other servers, start them; if it stays so, see its log", "does not tell the members: %s", s.MembersFailed)
		}
	}
	all, leaders := r.gather()
	if len(all) == 0 {
		return
	}
	voters, up := votersOf(all)
	start := lookAtNet
	if up >= voters/2+1 {
		start += "; if its machine is gone for good: pawl member replace" // a majority has to agree
	}
	for _, m := range all {
		name := nameOf(m.Member)
		switch m.GetRole() {
		case "expected":
			r.add("members", Warn, name, "start it on an empty folder, or forget it: pawl member remove "+name, "is expected, and has not joined")
			continue
		case "learner":
			r.add("members", Warn, name, "wait until it has caught up; if it does not, look at its log", "catches up, and has no vote yet")
		}
		switch {
		case len(m.by) == 0:
			r.add("members", Error, name, start, "does not answer %s", strings.Join(m.notBy, ", "))
		case len(m.notBy) > 0:
			r.add("members", Error, name, "look at the network between them, at the peers' addresses and certificates", "answers %s, and not %s", strings.Join(m.by, ", "), strings.Join(m.notBy, ", "))
		case m.behind > memberLag:
			r.add("members", Warn, name, "look at its disk and its network; do not stop another one before", "is %d entries of the log behind", m.behind)
		}
	}
	r.well("members", everywhere, "%s, all reach each other, and none is behind", count(len(all), "member", "members"))
	r.leader(leaders)
	r.majority("members", voters, up)
	r.named(all)
}

// votersOf counts the members with a vote, and those of them that answer somebody.
func votersOf(all []*seen) (voters, up int) {
	for _, m := range all {
		if role := m.GetRole(); role == "expected" || role == "learner" {
			continue
		}
		voters++
		if len(m.by) > 0 {
			up++
		}
	}
	return voters, up
}

func (r *report) leader(leaders map[string][]string) {
	switch len(leaders) {
	case 0:
		r.add("leader", Error, everywhere, "start the members that do not answer: a majority must reach each other", "no member leads: nothing is written")
		return
	case 1:
	default:
		var each []string
		for _, name := range slices.Sorted(maps.Keys(leaders)) {
			each = append(each, fmt.Sprintf("%s for %s", name, strings.Join(leaders[name], ", ")))
		}
		r.add("leader", Warn, everywhere, "ask again: a new leader is known within a second; if it stays so, look at the network", "servers differ on which member leads: %s", strings.Join(each, "; "))
		return
	}
	name := slices.Collect(maps.Keys(leaders))[0]
	active := r.active()
	switch node := active.ownMember(); {
	case node == name:
		r.add("leader", OK, everywhere, "", "%s leads, and its server is the active one", name)
	case node != "":
		r.add("leader", Warn, everywhere, "wait a minute: the active server's member takes the lead by itself; if it does not, look whether it is behind",
			"%s leads, and the server of %s is active: each write goes from one to the other, and a loss costs more", name, node)
	default:
		r.add("leader", OK, everywhere, "", "%s leads", name)
	}
}

// ownMember is the name of the server's member; empty: unknown.
func (s *Server) ownMember() string {
	if s == nil {
		return ""
	}
	for _, m := range s.Members {
		if m.GetAsked() {
			return nameOf(m)
		}
	}
	return ""
}

// majority judges how many voters may be lost. up of them answer somebody.
func (r *report) majority(of string, voters, up int) {
	need := voters/2 + 1
	switch {
	case up < need:
		r.noMajority = true
		r.add("quorum", Error, everywhere, "start another one; if most are lost for good: docs/quorum.md has pawl member recover", "%d of %d %s answer, and %d are needed", up, voters, of, need)
	case voters == 1:
		r.add("quorum", Warn, everywhere, "add two more: docs/quorum.md has it from one server to three", "there is one member: its loss is that of the cell")
	case up == need:
		r.add("quorum", Error, everywhere, "bring one back, or replace it, before anything else is stopped", "no member may be lost: %d of %d %s answer, and all of them are needed", up, voters, of)
	}
	if voters%2 == 0 {
		r.add("quorum", Warn, everywhere, "add or remove one: an even number stands the loss of no more members than the odd one below it", "there are %d %s with a vote", voters, of)
	}
	r.well("quorum", everywhere, "%d of %d %s answer; %d may be lost", up, voters, of, up-need)
}

// named finds members whose servers --servers does not name.
func (r *report) named(all []*seen) {
	var missing []string
	unreached := 0
	for _, s := range r.Servers {
		if s.Members == nil {
			unreached++
		}
	}
	for _, m := range all {
		if !m.own && len(m.by) > 0 {
			missing = append(missing, nameOf(m.Member))
		}
	}
	if len(missing) > unreached {
		r.add("servers", Warn, strings.Join(missing, ", "), "name all servers in PAWL_SERVERS, in that of the clients as well: they know no other way when one is lost", "runs, and its server is not in --servers")
	}
}

// endpoints judges the members of an etcd that others run, as each server reaches them.
func (r *report) endpoints() {
	all := map[string]*linkpb.Endpoint{}
	failed := map[string][]string{}
	led, voters := false, 0
	var order []string
	versions := map[string]bool{}
	for _, s := range r.full() {
		for _, e := range s.Status.GetHealth().GetEndpoints() {
			at := e.GetAddress()
			if all[at] == nil || all[at].GetFailed() != "" {
				if all[at] == nil {
					order = append(order, at)
				}
				all[at] = e
			}
			if e.GetFailed() != "" {
				failed[at] = append(failed[at], s.name()+": "+e.GetFailed())
			} else if e.GetVersion() != "" {
				versions[e.GetVersion()] = true
			}
			led = led || e.GetLeads()
		}
	}
	if len(order) == 0 {
		return
	}
	up := 0
	for _, at := range order {
		if !all[at].GetLearner() {
			voters++
			if all[at].GetFailed() == "" {
				up++
			}
		}
		if why := failed[at]; len(why) > 0 {
			r.add("endpoints", Error, at, "start this member of etcd, or look at the network between", "cannot be reached by %s", strings.Join(why, "; "))
		}
	}
	r.well("endpoints", everywhere, "%s of etcd, all reached", count(len(order), "endpoint", "endpoints"))
	if !led && up == len(order) && len(versions) > 0 {
		r.add("leader", Warn, everywhere, "name all members in --endpoints, and ask again: a new one is elected within seconds", "none of the endpoints leads its etcd")
	}
	if len(versions) > 1 {
		r.add("versions", Warn, everywhere, "finish the upgrade of etcd", "members of etcd differ: %s", strings.Join(slices.Sorted(maps.Keys(versions)), ", "))
	}
	if voters > 1 {
		r.majority("endpoints", voters, up)
	} else if voters == 1 {
		r.add("quorum", Warn, order[0], "name all members in --endpoints; an etcd of one stands no loss", "the servers know one endpoint of etcd")
	}
}
