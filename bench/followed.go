package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawlproject/pawl"
)

const (
	// followedCycle is about how long a take-over takes, with the return of the server
	// that ended.
	followedCycle = 10 * time.Second
	// followMax bounds the time until every standby has read all there is.
	followMax = 5 * time.Minute
	// inFlight is how many batches a standby that follows may be behind: those that are
	// on their way to the store.
	inFlight = 4
)

// followed holds very many leases on servers of which all but one stand by and follow:
// what a standby costs in memory, and how long a take-over takes. The servers are a
// quorum of three first, and then two on an etcd.
func (f *full) followed(ctx context.Context) error {
	var parts []string
	for _, place := range []struct {
		what    string
		servers func(context.Context) ([]*pawlServer, error)
		key     string
	}{
		{"A quorum of three", f.threeAlone, "followed"},
		{"Two servers on one etcd of one member", f.twoOnEtcd, ""},
	} {
		fmt.Fprintf(f.kit.to, "  %s\n", place.what)
		servers, err := place.servers(ctx)
		if err != nil {
			return err
		}
		text, stopped, err := f.followedBy(ctx, servers)
		if err != nil {
			return fmt.Errorf("%s: %w", place.what, err)
		}
		f.end()
		parts = append(parts, place.what+": "+text)
		if place.key != "" {
			f.report.note(place.key, slices.Max(stopped).Seconds())
		}
	}
	f.report.parts["followed"] = strings.Join(parts, "\n\n")
	return nil
}

// threeAlone starts a quorum of three, until the row's end.
func (f *full) threeAlone(ctx context.Context) ([]*pawlServer, error) {
	servers, err := f.kit.pawlQuorum(ctx, f.folder, 3)
	for _, s := range servers {
		f.atEnd(func() { s.stop() }) // its process is another one by then
	}
	return servers, err
}

// followedBy measures servers that keep one cell. It says what it found, and returns the
// times of the take-overs from a server that was stopped cleanly.
func (f *full) followedBy(ctx context.Context, servers []*pawlServer) (text string, stopped []time.Duration, err error) {
	var b strings.Builder
	say := func(format string, values ...any) {
		text := fmt.Sprintf(format, values...)
		fmt.Fprintf(f.kit.to, "  %s\n", text)
		b.WriteString(text + " ")
	}
	var links []string
	for _, s := range servers {
		s.ttl = holdersTTL
		links = append(links, s.link)
	}
	for _, s := range servers {
		s.others = slices.DeleteFunc(slices.Clone(links), func(link string) bool { return link == s.link })
	}
	us, err := servers[0].side(ctx, f.plan.holders)
	if err != nil {
		return "", nil, err
	}
	defer us.close()
	began := time.Now()
	leases, err := f.load(ctx, us.clients)
	if err != nil {
		return "", nil, err
	}
	say("%d leases of %d clients were taken in %.0f s.", len(leases), len(us.clients), time.Since(began).Seconds())
	if err := f.atRest(ctx, servers, say); err != nil {
		return "", nil, err
	}
	for _, way := range slices.Backward(ways) {
		var served, away, back, used []time.Duration
		before, err := wentOn(servers)
		if err != nil {
			return "", nil, err
		}
		for range f.plan.takeOvers {
			began := time.Now()
			r, err := f.takeOver(ctx, servers, way.end, leases)
			if err != nil {
				return "", nil, fmt.Errorf("%s: %w", way.what, err)
			}
			since, err := servedSince(servers, began)
			if err != nil {
				return "", nil, fmt.Errorf("%s: %w", way.what, err)
			}
			served = append(served, since.Sub(r.began))
			away, back, used = append(away, r.away), append(back, r.back), append(used, r.used)
		}
		if way.key == "stopped" {
			stopped = away
		}
		after, err := wentOn(servers)
		if err != nil {
			return "", nil, err
		}
		say("The active server %s, %d times: another one served after %s and granted after %s, when the others had used %s of processor time, and all %d clients had been heard after %s; %d times it went on from what it had read.",
			way.what, len(away), spread(served), spread(away), spread(used), len(us.clients), spread(back), after-before)
	}
	say("No lease was lost.")
	return strings.TrimSpace(b.String()), stopped, nil
}

// atRest says what the servers hold when nothing is asked of them.
func (f *full) atRest(ctx context.Context, servers []*pawlServer, say func(string, ...any)) error {
	if err := pause(ctx, f.plan.settle); err != nil {
		return err
	}
	active, err := following(ctx, servers)
	if err != nil {
		return err
	}
	for _, standby := range []bool{false, true} {
		for i, s := range servers {
			if standby == (i == active) {
				continue
			}
			m, err := s.memory()
			if err != nil {
				return err
			}
			role := "The active server"
			if standby {
				role = "A standby that follows it"
			}
			say("%s held %s, %s of it anonymous.", role, mebibytes(m.rss), mebibytes(m.anonymous))
		}
	}
	return nil
}

// following waits until all servers but one stand by and have read all that it wrote,
// and returns that one.
func following(ctx context.Context, servers []*pawlServer) (active int, err error) {
	ctx, stop := context.WithTimeout(ctx, followMax)
	defer stop()
	for {
		active = -1
		var batch uint64
		least := ^uint64(0)
		for i, s := range servers {
			st, err := s.status(ctx)
			if err != nil {
				return 0, fmt.Errorf("%s does not say how it is: %w", s.program.name, err)
			}
			if st.Active {
				active, batch = i, st.Batch
			} else {
				least = min(least, st.Followed)
			}
		}
		if active >= 0 && least > 0 && least+inFlight >= batch {
			return active, nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return 0, fmt.Errorf("a standby has read up to batch %d of %d: %w", least, batch, err)
		}
	}
}

// takeOver ends the active server while the others follow it, and starts it again. No
// lease may be lost.
func (f *full) takeOver(ctx context.Context, servers []*pawlServer, end func(*pawlServer), leases []*pawl.Lease) (r restarted, err error) {
	active, err := following(ctx, servers)
	if err != nil {
		return r, err
	}
	server := servers[active]
	others := slices.Delete(slices.Clone(servers), active, active+1)
	began := time.Now()
	ended := make(chan struct{})
	go func() {
		end(server)
		close(ended)
	}()
	r, err = f.goesOn(ctx, began, others, leases)
	<-ended
	if err != nil {
		return r, err
	}
	return r, server.start()
}

// servedSince reads in the servers' logs when one began to serve, the last time since a
// moment.
func servedSince(servers []*pawlServer, moment time.Time) (last time.Time, err error) {
	for _, s := range servers {
		text, err := os.ReadFile(s.log.Name())
		if err != nil {
			return last, err
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, " msg=serving ") {
				continue
			}
			stamp, _, _ := strings.Cut(strings.TrimPrefix(line, "time="), " ")
			at, err := time.Parse(time.RFC3339, stamp)
			if err != nil {
				return last, fmt.Errorf("%s: %w", s.log.Name(), err)
			}
			if at.After(moment) && at.After(last) {
				last = at
			}
		}
	}
	if last.IsZero() {
		return last, errors.New("no server says in its log that it serves")
	}
	return last, nil
}

// wentOn counts in the servers' logs how often one took over and went on from what it
// had read, instead of reading all.
func wentOn(servers []*pawlServer) (n int, err error) {
	for _, s := range servers {
		text, err := os.ReadFile(s.log.Name())
		if err != nil {
			return 0, err
		}
		n += bytes.Count(text, []byte("going on from where the standby had read the log to"))
	}
	return n, nil
}

// spread says the median and the greatest of some times.
func spread(all []time.Duration) string {
	slices.Sort(all)
	return fmt.Sprintf("%.2f s (at most %.2f s)", quantile(all, 0.5).Seconds(), all[len(all)-1].Seconds())
}
