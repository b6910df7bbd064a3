package doctor

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/pawlproject/pawl/internal/bearer"
)

// The levels of a finding.
const (
	OK    = "ok"
	Warn  = "warn"
	Error = "error"
)

// Finding is what one check found at one place.
type Finding struct {
	Check string `json:"check"`
	Level string `json:"level"`
	// Where is a server, a member, or "cell".
	Where string `json:"where"`
	Text  string `json:"text"`
	// Do is what to do about it; empty: nothing.
	Do string `json:"do,omitempty"`
}

// everywhere is where a finding about the whole cell is.
const everywhere = "cell"

// report gathers findings.
type report struct {
	Facts
	found []Finding
	// noMajority: too few members answer to decide anything.
	noMajority bool
}

func (r *report) add(check, level, where, do, text string, a ...any) {
	r.found = append(r.found, Finding{Check: check, Level: level, Where: where, Text: fmt.Sprintf(text, a...), Do: do})
}

// well adds that a check found nothing, if it has found nothing.
func (r *report) well(check, where, text string, a ...any) {
	if !slices.ContainsFunc(r.found, func(f Finding) bool { return f.Check == check && f.Level != OK }) {
		r.add(check, OK, where, "", text, a...)
	}
}

// answered are the servers that told their status.
func (r *report) answered() []*Server {
	var all []*Server
	for i := range r.Servers {
		if r.Servers[i].Status != nil {
			all = append(all, &r.Servers[i])
		}
	}
	return all
}

// full are those of them that told all, and not only what everybody may know.
func (r *report) full() []*Server {
	return slices.DeleteFunc(r.answered(), func(s *Server) bool { return s.Status.GetPartial() || s.Status.GetHealth() == nil })
}

// active is the server that says it is; nil: none.
func (r *report) active() *Server {
	for _, s := range r.answered() {
		if s.Status.GetActive() {
			return s
		}
	}
	return nil
}

// Judge says what the facts mean, the worst first.
func Judge(f Facts) []Finding {
	r := &report{Facts: f}
	r.reach()
	r.members()
	if len(r.answered()) > 0 {
		r.cells()
		r.activeServer()
		r.endpoints()
		r.clocks()
		r.stores()
		r.folders()
		r.standbys()
		r.versions()
		r.security()
		r.unseen()
	}
	r.certificates()
	rank := map[string]int{Error: 0, Warn: 1, OK: 2}
	slices.SortStableFunc(r.found, func(a, b Finding) int { return rank[a.Level] - rank[b.Level] })
	return r.found
}

// Reached reports whether any server answered, and whether one did that let the caller
// in.
func Reached(f Facts) (answered, admitted bool) {
	for _, s := range f.Servers {
		admitted = admitted || s.Status != nil || s.Alive
		answered = answered || admitted || s.Refused
	}
	return answered, admitted
}

func (r *report) reach() {
	for _, s := range r.Servers {
		switch {
		case s.Status != nil:
			r.add("reach", OK, s.name(), "", "answers after %v", s.Took.Round(100*time.Microsecond))
		case s.Refused:
			r.add("rights", Error, s.Address, "give a credential or a certificate of an identity (--credential-file, or --cert and --key)", "answers, and does not let this caller in: %s", s.Failed)
		case s.Alive:
			r.add("reach", Error, s.Address, "see its log; its store is silent, or it is about to take over", "answers, and cannot tell how the cell is: %s", s.Failed)
		case s.Found:
			r.add("reach", Error, s.Address, "make the address of its \"serve --advertise\" reachable from here, or start it", "others name it as the active server, and it does not answer: %s", s.Failed)
		default:
			r.add("reach", Error, s.Address, "start it, or take it out of --servers; if it runs, look at the network and at --ca", "%s", s.Failed)
		}
	}
}

func (r *report) cells() {
	var first *Server
	for _, s := range r.answered() {
		id := s.Status.GetCell()
		switch {
		case id == "":
		case first == nil:
			first = s
		case id != first.Status.GetCell():
			r.add("cell", Error, s.name(), "name the servers of one cell in --servers", "is of the cell %s, and %s of %s", id, first.name(), first.Status.GetCell())
		}
	}
	if first != nil {
		r.well("cell", everywhere, "%s", first.Status.GetCell())
	}
}

func (r *report) activeServer() {
	todo := "see why the active server does not answer; if it is down, a standby takes over within --active-ttl"
	if r.noMajority {
		todo = "start what a majority lacks: no standby takes over without one"
	}
	var active []string
	for _, s := range r.answered() {
		if s.Status.GetActive() {
			active = append(active, s.name())
		}
	}
	switch {
	case len(active) > 1:
		r.add("active", Warn, everywhere, "ask again: a server that lost its tenure learns it within --active-ttl", "%s say that they are active", strings.Join(active, " and "))
	case len(active) == 0 && slices.ContainsFunc(r.answered(), func(s *Server) bool { return s.Status.GetActiveLink() != "" }):
		r.add("active", Error, everywhere, todo, "no server that answers is active")
	case len(active) == 0:
		waits := "see what the servers wait for, in their logs; the store may have no majority"
		for _, s := range r.answered() {
			if what := s.Status.GetWaits(); what != "" {
				waits = s.name() + " waits for " + what
				break
			}
		}
		r.add("active", Error, everywhere, waits, "no server is active, and none is known to be: nothing is granted")
	default:
		r.add("active", OK, everywhere, "", "%s is active, in epoch %d", active[0], r.active().Status.GetEpoch())
	}
	if a := r.active(); a != nil && a.Status.GetDrillNano() > 0 {
		r.add("drill", Warn, a.name(), "wait for its end, or restart the active server", "a drill is on: the cell answers as one that lost its quorum for %v more", time.Duration(a.Status.GetDrillNano()).Round(time.Second))
	} else if a != nil {
		r.add("drill", OK, everywhere, "", "none is on")
	}
}

// standbyLag is how long ago a standby may have read the log to its end.
const standbyLag = 30 * time.Second

func (r *report) standbys() {
	active := r.active()
	standbys := 0
	for _, s := range r.answered() {
		if s.Status.GetActive() || active == nil || s.Status.GetRole() != "standby" || s.Status.GetPartial() {
			continue
		}
		standbys++
		behind := time.Duration(s.Status.GetBehindNano())
		switch {
		case s.Status.GetFollowed() == 0:
			r.add("standbys", Warn, s.name(), "wait until it has; do not stop the active server before", "has not read the log of the active server yet: it would take over slowly")
		case behind > max(standbyLag, 3*time.Duration(s.Status.GetActiveTtlNano())):
			r.add("standbys", Warn, s.name(), "look at its log, and at how fast it reads its store", "is behind: it read the log to its end %v ago, up to batch %d", behind.Round(time.Second), s.Status.GetFollowed())
		}
	}
	if standbys > 0 {
		r.well("standbys", everywhere, "%s read on with the active server", count(standbys, "standby", "standbys"))
	}
}

func (r *report) versions() {
	by := map[string][]string{}
	var all []string
	for _, s := range r.answered() {
		v := s.Status.GetVersion()
		if by[v] == nil {
			all = append(all, v)
		}
		by[v] = append(by[v], s.name())
	}
	if len(all) == 1 {
		r.add("versions", OK, everywhere, "", "%s", all[0])
		return
	}
	var each []string
	for _, v := range all {
		each = append(each, strings.Join(by[v], ", ")+": "+v)
	}
	r.add("versions", Warn, everywhere, "finish the upgrade: one server after the other, the active one last", "servers differ: %s", strings.Join(each, "; "))
}

func (r *report) security() {
	for _, s := range r.answered() {
		host, _, err := net.SplitHostPort(s.Address)
		local := err != nil || bearer.Loopback(host)
		const do = "give it --tls-cert, --tls-key and --auth-file, and take --insecure away (docs/security.md)"
		switch {
		case s.Status.GetHealth().GetInsecure():
			r.add("security", Warn, s.name(), do, "runs with --insecure: others may reach its addresses without TLS or authentication")
		case !local && !(s.Status.GetTls() && s.Status.GetAuth()):
			r.add("security", Warn, s.name(), do, "is reached %s", lacking(s.Status.GetTls(), s.Status.GetAuth()))
		}
	}
	r.well("security", everywhere, "no server is open to others without TLS and authentication")
}

func lacking(tls, auth bool) string {
	switch {
	case !tls && !auth:
		return "without TLS, and everybody may do everything"
	case !tls:
		return "without TLS"
	}
	return "by everybody, who may do everything"
}

// unseen says what was not looked at for want of a right.
func (r *report) unseen() {
	var where []string
	for _, s := range r.answered() {
		if s.Status.GetPartial() || s.MembersDenied {
			where = append(where, s.name())
		}
		if s.Status.GetWallUnixNano() == 0 {
			r.add("versions", Warn, s.name(), "upgrade it", "is older than this program: its clock, store and certificates were not looked at")
		}
	}
	if len(where) > 0 {
		r.add("rights", OK, strings.Join(where, ", "), "ask as an identity that is admin of all names (pawl auth new ops --prefix '' --allow admin)",
			"not looked at for want of a right: members, store, data folder, clock source, standbys, certificates in files")
	}
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
