package endtoend

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/testwait"
)

// A cell in an etcd with TLS, users and other tenants. The server presents its
// certificate, logs in as a user with rights on one prefix, and shows no one its
// password. The administrator of the etcd can read what the cell keeps, and sees when
// it is damaged.
func TestEtcdTenantWithTLSAndUsers(t *testing.T) {
	wholly(t)
	id := etcdtest.NewIdentity(t)
	c := etcdtest.Start(t, etcdtest.Options{Identity: id})
	const password = "correct horse battery staple"
	c.Guard(t, "locks", password, "/team/")
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	as := []string{
		"--store", "etcd", "--endpoints", strings.Join(c.Endpoints(), ","), "--prefix", "/team/", "--cell", "jobs",
		"--store-ca", id.CA, "--store-cert", id.ClientCert, "--store-key", id.ClientKey,
		"--store-user", "locks", "--store-password-file", file,
	}
	s := newServer(t, append([]string{"--log-level", "debug"}, as...)...)
	s.up()
	s.want(0, "acquire", "orders/7", "--ttl", "1h")
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(cmdline)+s.said(), password) {
		t.Error("the password is in the process list or in the log")
	}

	dump := func() result {
		return finish(t, pawlCommand(t, bound, append([]string{"log", "dump", "--json"}, as...)...))
	}
	if r := dump(); r.code != 0 || !strings.Contains(r.stdout, `"orders/7"`) || !strings.Contains(r.stdout, "/team/jobs/tenure") {
		t.Errorf("the administrator sees: %v", r)
	} else if !strings.HasPrefix(r.stderr, "whole: the cell below /team/jobs/ in the etcd at "+strings.Join(c.Endpoints(), ",")) {
		t.Errorf("the verdict is %q", r.stderr)
	}
	elsewhere := slices.Replace(slices.Clone(as), 7, 8, "job")
	if r := finish(t, pawlCommand(t, bound, append([]string{"log", "dump"}, elsewhere...)...)); r.code != 65 ||
		!strings.Contains(r.stderr, "there is no cell below /team/job/ in the etcd at ") || !strings.Contains(r.stderr, "--cell and --prefix say where to look") {
		t.Errorf("where there is no cell: %v", r)
	}

	wrong := filepath.Join(t.TempDir(), "wrong")
	if err := os.WriteFile(wrong, []byte("battery staple\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stranger := newServer(t, append(slices.Clone(as[:len(as)-1]), wrong)...)
	stranger.launch()
	if code := stranger.end(); code != 69 || !strings.Contains(stranger.said(), "authentication failed") {
		t.Errorf("with a wrong password it ends with %d:\n%s", code, stranger.said())
	}

	root, err := c.Client(etcdtest.Root, etcdtest.RootPassword)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	all, err := root.Get(t.Context(), "/team/jobs/log/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil || len(all.Kvs) < 2 {
		t.Fatalf("the log has %d keys (%v)", len(all.Kvs), err)
	}
	s.stop(syscall.SIGKILL)
	if _, err := root.Put(t.Context(), string(all.Kvs[1].Key), "harm"); err != nil {
		t.Fatal(err)
	}
	if r := dump(); r.code != 65 || !strings.Contains(r.stderr, "batch 2:") {
		t.Errorf("a damaged batch: %v", r)
	}
	s.launch()
	if code := s.end(); code != 65 {
		t.Errorf("a server on a damaged log ends with %d:\n%s", code, s.said())
	}
}

// Two cells live in one etcd, under one prefix and under two, and know nothing
// of each other.
func TestEtcdCellsSideBySide(t *testing.T) {
	wholly(t)
	c := etcdtest.Start(t, etcdtest.Options{Version: "3.6"})
	one := onEtcd(t, c, "--cell", "a")
	two := onEtcd(t, c, "--cell", "b")
	three := onEtcd(t, c, "--cell", "a", "--prefix", "/other/")
	cells := map[string]bool{}
	for _, s := range []*server{one, two, three} {
		s.up()
		l := read[struct{ Cell string }](t, s.want(0, "acquire", "orders/7", "--ttl", "1h").stdout)
		cells[l.Cell] = true
	}
	if len(cells) != 3 {
		t.Errorf("three cells have the ids %v", cells)
	}
}

// Another tenant fills etcd up to its quota alarm. Acquires are refused, and renewals
// go on, even after a release that cannot be written. Everything goes on once the
// operator has made room.
func TestEtcdQuotaAlarmRefusesOnlyAcquires(t *testing.T) {
	wholly(t)
	c := etcdtest.Start(t, etcdtest.Options{Args: []string{"--quota-backend-bytes", fmt.Sprint(16 << 20)}})
	s := onEtcd(t, c, "--active-ttl", "10s")
	s.up()
	l := read[struct{ Lease string }](t, s.want(0, "acquire", "orders/7", "--ttl", "1h").stdout)
	other := read[struct{ Lease string }](t, s.want(0, "acquire", "orders/6", "--ttl", "1h").stdout)
	client, err := c.Client("", "")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	garbage := string(make([]byte, 1<<20))
	for i := 0; err == nil; i++ {
		if i == 100 {
			t.Fatal("the quota was not reached")
		}
		_, err = client.Put(t.Context(), "/somebody/else", garbage)
	}
	testwait.Until(t, bound, "the server knows", func() bool {
		return strings.Contains(s.want(0, "status").stdout, "acquires are refused for want of room")
	})
	if r := s.pawl("acquire", "orders/8", "--ttl", "1h"); r.code != 75 || !strings.Contains(r.stderr, "nearly full") {
		t.Errorf("an acquire at the alarm: %v", r)
	}
	s.want(0, "renew", l.Lease)
	s.want(0, "show", "orders/7")
	// What has to be written waits, and nobody else's renewals with it.
	release := begin(t, s.command(2*bound, "release", l.Lease))
	testwait.Until(t, bound, "the release is stuck", func() bool {
		r := s.pawl("acquire", "orders/8", "--ttl", "1h")
		return r.code == 75 && strings.Contains(r.stderr, "the store is full")
	})
	for range 3 {
		s.want(0, "renew", other.Lease)
	}
	s.want(0, "status")

	res, err := client.Get(t.Context(), "/somebody/else", clientv3.WithKeysOnly())
	if err == nil {
		_, err = client.Compact(t.Context(), res.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err == nil {
		_, err = client.Defragment(t.Context(), c.Endpoints()[0])
	}
	if err == nil {
		_, err = client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{})
	}
	if err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "acquires are let in again", func() bool {
		return s.pawl("acquire", "orders/9", "--ttl", "1h").code == 0
	})
	_ = release.end() // it may have given up meanwhile
	testwait.Until(t, bound, "the release took effect", func() bool { return len(s.lookUp("orders/7").Holders) == 0 })
}
