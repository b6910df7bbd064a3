package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawlproject/pawl/internal/testport"
)

// pawlQuorum starts servers that keep one cell among themselves, and returns them when
// they serve.
func (k kit) pawlQuorum(ctx context.Context, folder string, n int) (all []*pawlServer, err error) {
	defer func() {
		if err != nil {
			for _, s := range all {
				s.stop()
			}
		}
	}()
	var peers []string
	for i := range n {
		peer, err := testport.Free()
		if err != nil {
			return nil, err
		}
		peers = append(peers, fmt.Sprintf("n%d=http://%s", i+1, peer))
	}
	for i := range n {
		s := &pawlServer{folder: folder, ttl: sessionTTL}
		if err := freeAddresses(&s.link, &s.http, &s.debug); err != nil {
			return all, err
		}
		name := fmt.Sprintf("n%d", i+1)
		s.program = program{name: name, binary: k.pawl, args: []string{
			"serve", "--listen", s.link, "--http", s.http, "--debug-listen", s.debug,
			"--data", filepath.Join(folder, name), "--node", name, "--peers", strings.Join(peers, ","),
		}}
		if err := s.start(); err != nil {
			return all, err
		}
		all = append(all, s)
	}
	for i, s := range all {
		for j, other := range all {
			if i != j {
				s.others = append(s.others, other.link)
			}
		}
	}
	return all, all[0].until(ctx, all[0].answers)
}

// quorum is three pawl servers with a member each, beside etcd's Mutex on three members.
func (f *full) quorum(ctx context.Context) error {
	etcd, err := f.etcd(ctx, "etcd", 3, 1, 1, nil)
	if err != nil {
		return err
	}
	servers, err := f.kit.pawlQuorum(ctx, f.folder, 3)
	if err != nil {
		return err
	}
	var others []*process
	for i, s := range servers {
		f.atEnd(s.stop)
		if i > 0 {
			others = append(others, s.process)
		}
	}
	us, err := servers[0].side(ctx, 1)
	if err != nil {
		return err
	}
	f.atEnd(us.close)
	var contests []contest
	for _, n := range slices.DeleteFunc(slices.Clone(f.plan.callers), func(n int) bool { return n == 16 }) {
		contests = append(contests, contest{pairsOf(n), n, []side{
			us.as(ours, us.pairs, others...), etcd.as(etcdMutex, etcd.pairs),
		}})
	}
	t, err := f.contests(ctx, "quorum", contests)
	if err == nil {
		f.report.note("quorum", times(t.row(pairsOf(64), ours), t.row(pairsOf(64), etcdMutex)))
	}
	return err
}
