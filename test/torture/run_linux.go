package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
)

// runner is the first process inside.
type runner struct {
	settings
	world
	namespaces map[string]namespace
	processes  map[string]*process
	relays     map[string]*relay
	web        *http.Client

	mu      sync.Mutex
	changes []change
	on      []fault // that change the network
}

const (
	// readyMost is how long a cell may take until it serves.
	readyMost = time.Minute
	// diskSize is that of a node of the cell.
	diskSize = "384m"
	// closeMost is how long a process may take to end when it is asked to.
	closeMost = 10 * time.Second
)

// insideMain runs a run within the namespaces that were made for it.
func insideMain(args []string) int {
	s, err := parse(args)
	if err != nil {
		fmt.Println("torture:", err)
		return 64
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	w, err := worldOf(s.store)
	if err != nil {
		fmt.Println("torture:", err)
		return 64
	}
	r := &runner{settings: s, world: w, web: &http.Client{Timeout: time.Second}}
	v, err := r.run(ctx)
	if err == nil {
		err = v.check()
	}
	v.print(os.Stdout, err)
	if err != nil {
		return 1
	}
	return 0
}

func (r *runner) run(ctx context.Context) (v verdict, err error) {
	if err := r.build(ctx); err != nil {
		return v, err
	}
	defer func() {
		for _, p := range r.processes {
			v.odd = append(v.odd, p.odd...)
			v.own += p.own
		}
		for _, n := range r.nodes() {
			if p := r.processes[n]; err != nil && p != nil {
				fmt.Printf("== %s said last\n%s\n", n, p.lastWords())
			}
		}
	}()
	defer r.closeAll()
	if err := r.startAll(ctx); err != nil {
		return v, err
	}
	faults := plan(r.world, r.seed, r.duration)
	fmt.Printf("store: %s seed: %d duration: %v faults: %d\n", r.store, r.seed, r.duration, len(faults))
	from := clock.Boottime()
	if err := r.torture(ctx, faults, from); err != nil {
		return v, err
	}
	if err := wait(ctx, from+r.duration-clock.Boottime()); err != nil {
		return v, err
	}
	until := clock.Boottime()
	for _, n := range r.workers {
		r.processes[n].close(closeMost)
	}
	records, err := readRecords(filepath.Join(r.folder, "records"))
	if err != nil {
		return v, err
	}
	r.mu.Lock()
	changes := slices.Clone(r.changes)
	r.mu.Unlock()
	return r.judge(records, changes, from, until)
}

// wait waits, and fails when the run is to end.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return errors.New("interrupted")
	}
}

// build makes networks and disks.
func (r *runner) build(ctx context.Context) (err error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if r.namespaces, err = lan(r.world); err != nil {
		return err
	}
	r.processes, r.relays = map[string]*process{}, map[string]*relay{}
	if err := errors.Join(os.MkdirAll(filepath.Join(r.folder, "records"), 0o700), os.MkdirAll(filepath.Join(r.folder, "resources"), 0o700)); err != nil {
		return err
	}
	for _, n := range r.nodes() {
		if r.relays[n], err = newRelay(ctx, r.namespaces[n]); err != nil {
			return err
		}
		p := &process{ctx: ctx, node: n, namespace: r.namespaces[n], changed: r.changed}
		if p.log, err = os.Create(filepath.Join(r.folder, n+".log")); err != nil {
			return err
		}
		if !slices.Contains(r.workers, n) {
			p.disk = filepath.Join(r.folder, n)
			if err := os.Mkdir(p.disk, 0o700); err != nil {
				return err
			}
			if err := unix.Mount("tmpfs", p.disk, "tmpfs", 0, "size="+diskSize); err != nil {
				return fmt.Errorf("a disk for %s: %w", n, err)
			}
		}
		p.argv, p.env = r.command(n, p.disk)
		r.processes[n] = p
	}
	return nil
}

// command is what a node runs.
func (r *runner) command(node, disk string) (argv, env []string) {
	urls := func(nodes []string, format string) string {
		var all []string
		for _, n := range nodes {
			all = append(all, strings.NewReplacer("NODE", n, "HOST", r.address(n)).Replace(format))
		}
		return strings.Join(all, ",")
	}
	data := filepath.Join(disk, "data")
	serve := []string{
		r.pawl, "serve", "--insecure", "--listen", "0.0.0.0:7420", "--http", "0.0.0.0:7421",
		"--advertise", r.address(node), "--data", data, "--log-format", "json",
	}
	switch i := slices.Index(r.workers, node); {
	case i >= 0:
		// Each begins with another server.
		servers := append(slices.Clone(r.servers[i:]), r.servers[:i]...)
		return []string{
			"/proc/self/exe", "-name", node, "-servers", urls(servers, "HOST:7420"), "-folder", r.folder, "-pawl", r.pawl,
		}, []string{roleEnv + "=worker"}
	case r.store == storeQuorum:
		return append(serve, "--node", node, "--peers", urls(r.members, "NODE=http://HOST:7422")), nil
	case slices.Contains(r.members, node):
		return []string{
			r.etcd, "--name", node, "--data-dir", data,
			"--listen-peer-urls", urls([]string{node}, "http://HOST:2380"), "--initial-advertise-peer-urls", urls([]string{node}, "http://HOST:2380"),
			"--listen-client-urls", urls([]string{node}, "http://HOST:2379"), "--advertise-client-urls", urls([]string{node}, "http://HOST:2379"),
			"--initial-cluster", urls(r.members, "NODE=http://HOST:2380"), "--initial-cluster-token", "torture",
			"--auto-compaction-mode", "revision", "--auto-compaction-retention", "5000", "--log-level", "warn",
		}, nil
	default:
		return append(serve, "--store", "etcd", "--endpoints", urls(r.members, "HOST:2379")), nil
	}
}

// startAll starts the cell, and the workers when it serves.
func (r *runner) startAll(ctx context.Context) error {
	for _, n := range r.cell() {
		if err := r.processes[n].start(); err != nil {
			return err
		}
	}
	began := clock.Boottime()
	for _, n := range r.servers {
		for !r.answers(n, "/readyz", "") {
			if clock.Boottime()-began > readyMost {
				return fmt.Errorf("%s does not serve within %v", n, readyMost)
			}
			if err := wait(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	for _, n := range r.workers {
		if err := r.processes[n].start(); err != nil {
			return err
		}
	}
	return nil
}

// answers reports whether a server answers with 200 and, among other things, a text.
func (r *runner) answers(node, path, text string) bool {
	res, err := r.web.Get("http://" + r.address(node) + ":7421" + path)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	return err == nil && res.StatusCode == http.StatusOK && strings.Contains(string(b), text)
}

// activeServer is the one that says it is; empty: none.
func (r *runner) activeServer() string {
	for _, n := range r.servers {
		if r.answers(n, "/v1/status", `"active":true`) {
			return n
		}
	}
	return ""
}

// torture plays the faults.
func (r *runner) torture(ctx context.Context, faults []fault, from moment) error {
	skipped := map[int]bool{}
	for _, t := range turns(faults) {
		if err := wait(ctx, from+t.at-clock.Boottime()); err != nil {
			return err
		}
		if t.first {
			server := ""
			if f := faults[t.fault]; slices.Contains(f.a, active) || slices.Contains(f.b, active) {
				server = r.activeServer()
			}
			f, ok := faults[t.fault].resolve(server)
			faults[t.fault], skipped[t.fault] = f, !ok
			if ok {
				fmt.Printf("%8.3fs %v\n", (clock.Boottime() - from).Seconds(), f)
			}
		}
		if skipped[t.fault] {
			continue
		}
		if err := r.turn(faults[t.fault], t); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) changed(c change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.at = clock.Boottime() // in their order
	r.changes = append(r.changes, c)
}

// turn begins or ends a fault.
func (r *runner) turn(f fault, t turn) error {
	switch f.kind {
	case stop, kill, full:
		for _, n := range f.a {
			if err := r.hurt(r.processes[n], f, t.on); err != nil {
				return err
			}
		}
		return nil
	}
	c := change{a: f.a, b: f.b, delta: -1, what: "the end of " + f.String()}
	if t.on {
		c.delta, c.what = 1, f.String()
	}
	if f.kind == delay { // it is slow, and connects
		c.a, c.b = nil, nil
		for _, n := range f.a {
			r.relays[n].late.Store(0)
			if t.on {
				r.relays[n].late.Store(int64(f.late))
			}
		}
	}
	if t.first {
		r.changed(c) // before the first packet is lost
	}
	same := func(o fault) bool {
		return o.kind == f.kind && o.at == f.at && slices.Equal(o.a, f.a) && slices.Equal(o.b, f.b)
	}
	if i := slices.IndexFunc(r.on, same); t.on && i < 0 {
		r.on = append(r.on, f)
	} else if !t.on && i >= 0 {
		r.on = slices.Delete(r.on, i, i+1)
	}
	for n, rules := range r.rulesets(r.on) {
		err := r.namespaces[n].do(func() error { return tool(rules, nil, "nft", "-f", "-") })
		if err != nil {
			return err
		}
	}
	if t.last {
		r.changed(c)
	}
	return nil
}

// hurt begins or ends a fault of a process or its disk.
func (r *runner) hurt(p *process, f fault, on bool) error {
	if on {
		r.changed(change{node: p.node, delta: 1, what: f.String()})
		switch f.kind {
		case stop:
			p.signal(syscall.SIGSTOP)
		case kill:
			p.kill()
		case full:
			return p.fill()
		}
		return nil
	}
	var err error
	switch f.kind {
	case stop:
		p.signal(syscall.SIGCONT)
	case kill:
		err = p.start()
	case full:
		err = p.empty()
	}
	r.changed(change{node: p.node, delta: -1, what: "the end of " + f.String()})
	return err
}

func (r *runner) closeAll() {
	var all sync.WaitGroup
	for _, n := range r.nodes() {
		if p := r.processes[n]; p != nil {
			all.Go(func() { p.close(closeMost) })
		}
	}
	all.Wait()
}
