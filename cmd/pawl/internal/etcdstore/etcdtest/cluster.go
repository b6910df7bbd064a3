package etcdtest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/pawlproject/pawl/internal/testport"
)

// Newest is the version that pawl's own client and embedded member are of.
const Newest = "3.7"

// Versions are those that pawl works with.
var Versions = []string{"3.5", "3.6", Newest}

// VersionEnv names a variable that has every cluster which says no version be of
// one line, "3.5" say, and tests on several lines keep to it: `make etcd-lines`.
const VersionEnv = "PAWL_ETCD_VERSION"

// TestVersions are the versions to run a test on whose outcome is etcd's own doing.
func TestVersions() []string {
	if line := os.Getenv(VersionEnv); line != "" {
		return []string{line}
	}
	return Versions
}

// readyMax bounds the wait for a cluster on a slow machine.
const readyMax = time.Minute

// Options of a cluster. The zero value is a single member of the newest version.
type Options struct {
	// Version such as "3.6"; empty: that in VersionEnv, or Newest.
	Version string
	// Members; 0: one.
	Members int
	// Identity has clients come through TLS and show a certificate; nil: plain.
	Identity *Identity
	// Args are further ones of every member.
	Args []string
}

// Cluster runs. Its methods may be called by one goroutine at a time.
type Cluster struct {
	Members []*Member
	opts    Options
	dir     string
	binary  string
}

// Start runs a cluster for a test and waits until it answers.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c, err := run(t.Context(), t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if t.Failed() {
			for _, m := range c.Members {
				t.Logf("%s said at last:\n%s", m.Name, m.tail())
			}
		}
	})
	return c
}

// run starts a cluster in a folder and waits until it answers. Close ends it.
func run(ctx context.Context, dir string, o Options) (*Cluster, error) {
	if o.Version == "" {
		o.Version = cmp.Or(os.Getenv(VersionEnv), Newest)
	}
	if o.Members == 0 {
		o.Members = 1
	}
	program, err := binary(o.Version)
	if err != nil {
		return nil, err
	}
	// Ports are drawn at random: one that somebody else took meanwhile is
	// another's turn.
	for range 3 {
		c := &Cluster{opts: o, dir: dir, binary: program}
		if err = c.form(ctx); err == nil {
			return c, nil
		}
		c.Close()
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("start etcd %s: %w", o.Version, err)
}

func (c *Cluster) form(ctx context.Context) error {
	for i := range c.opts.Members {
		m := &Member{Name: fmt.Sprintf("m%d", i), cluster: c}
		m.Dir = filepath.Join(c.dir, m.Name)
		if err := os.RemoveAll(m.Dir); err != nil {
			return err
		}
		var err error
		if m.client, err = testport.Free(); err != nil {
			return err
		}
		if m.peer, err = testport.Free(); err != nil {
			return err
		}
		c.Members = append(c.Members, m)
	}
	for _, m := range c.Members {
		if err := m.Start(); err != nil {
			return err
		}
	}
	return c.Ready(ctx)
}

// Ready waits until the cluster answers a linearizable read.
func (c *Cluster) Ready(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, readyMax)
	defer done()
	client, err := c.Client("", "")
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		attempt, done := context.WithTimeout(ctx, time.Second)
		// A member that is not there yet is waited for by the attempt's whole
		// time: the client returns only with a time-out or an answer.
		_, err := client.Get(attempt, "ready", clientv3.WithLimit(1))
		if err != nil && attempt.Err() == nil && !denied(err) {
			<-attempt.Done()
		}
		done()
		if err == nil || denied(err) {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("it does not answer: %w; %s", err, c.Members[0].tail())
		}
		for _, m := range c.Members {
			if m.over() {
				return fmt.Errorf("%s ended: %s", m.Name, m.tail())
			}
		}
	}
}

// denied: the member answers, but only to callers that log in.
func denied(err error) bool {
	return strings.Contains(err.Error(), "user name is empty") || strings.Contains(err.Error(), "permission denied")
}

// Endpoints of every member, as pawl serve and the client library take them.
func (c *Cluster) Endpoints() []string {
	var all []string
	for _, m := range c.Members {
		all = append(all, m.Endpoint())
	}
	return all
}

// Client is etcd's own client library, on all members. The caller closes it.
func (c *Cluster) Client(user, password string) (*clientv3.Client, error) {
	cfg := clientv3.Config{Endpoints: c.Endpoints(), Username: user, Password: password, DialTimeout: readyMax, Logger: zap.NewNop()}
	if id := c.opts.Identity; id != nil {
		var err error
		if cfg.TLS, err = id.clientConfig(); err != nil {
			return nil, err
		}
	}
	return clientv3.New(cfg)
}

// Close kills every member.
func (c *Cluster) Close() {
	for _, m := range c.Members {
		m.Kill()
	}
}

// Leader is the member that leads; nil when nobody says so.
func (c *Cluster) Leader(ctx context.Context) *Member {
	client, err := c.Client("", "")
	if err != nil {
		return nil
	}
	defer client.Close()
	for _, m := range c.Members {
		if m.stopped || m.over() {
			continue
		}
		ctx, done := context.WithTimeout(ctx, 5*time.Second)
		s, err := client.Status(ctx, m.Endpoint())
		done()
		if err == nil && s.Leader != 0 && s.Leader == s.Header.MemberId {
			return m
		}
	}
	return nil
}

// Signal reaches every member.
func (c *Cluster) Signal(sig syscall.Signal) {
	for _, m := range c.Members {
		m.signal(sig)
	}
}
