package etcdstore

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/testwait"
)

const password = "correct horse battery staple"

func say(word string) func() (string, error) { return func() (string, error) { return word, nil } }

// C28: a user that may read and write below the prefix and nothing else. Its tokens end:
// after two seconds, when rights change, when members restart.
func TestRightsOnThePrefixSuffice(t *testing.T) {
	starts(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("known to etcd"), 0o600); err != nil {
		t.Fatal(err)
	}
	signed := []string{"--auth-token", "jwt,sign-method=HS256,ttl=2s,priv-key=" + secret}
	type way struct {
		version string
		args    []string
	}
	ways := []way{{"3.5", signed}, {"3.6", nil}, {"3.7", nil}, {"3.7", signed}}
	if line := os.Getenv(etcdtest.VersionEnv); line != "" {
		ways = []way{{line, nil}, {line, signed}}
	}
	for _, tc := range ways {
		t.Run(tc.version, func(t *testing.T) {
			c := etcdtest.Start(t, etcdtest.Options{Version: tc.version, Args: tc.args})
			c.Guard(t, "pawl", password, "/pawl/test/")
			e := external(t, c, ExternalOptions{User: "pawl", Password: say(password)})
			s := newAppender(t, e)
			s.appendMany(20)
			s.snapshot()
			tokens := map[string]bool{}
			another := func() bool {
				s.append()
				e.login.turn <- struct{}{}
				tokens[e.login.present] = true
				<-e.login.turn
				return len(tokens) > 2
			}
			if tc.args != nil {
				testwait.Until(t, bound, "several tokens have come and gone", another)
				root, err := c.Client(etcdtest.Root, etcdtest.RootPassword)
				if err != nil {
					t.Fatal(err)
				}
				// Rights change: tokens signed before are refused.
				if _, err := root.RoleAdd(t.Context(), "new"); err != nil {
					t.Error(err)
				}
				_ = root.Close()
			} else {
				c.Members[0].Kill()
				if err := c.Members[0].Start(); err != nil {
					t.Fatal(err)
				}
			}
			s.appendMany(5)
			testwait.Until(t, bound, "how full it is", func() bool {
				u, err := s.log.ten.Usage(t.Context())
				return err == nil && u.Used > 0
			})
		})
	}
}

// What only an operator can mend ends a start at once, says what is wrong, and never the
// password.
func TestRefusals(t *testing.T) { sideBySide(t, refusals) }

func refusals(t *testing.T, version string) {
	c := etcdtest.Start(t, etcdtest.Options{Version: version})
	c.Guard(t, "pawl", password, "/pawl/test/")
	for name, tc := range map[string]struct {
		opts ExternalOptions
		want error
	}{
		"authentication failed": {ExternalOptions{User: "pawl", Password: say("wrong " + password)}, ErrRefused},
		"permission denied":     {ExternalOptions{User: "pawl", Password: say(password), Prefix: "/other/"}, ErrRefused},
		"user name is empty":    {ExternalOptions{}, ErrRefused},
		"no user is called so":  {ExternalOptions{User: "nobody", Password: say(password)}, ErrRefused},
		"its password is lost":  {ExternalOptions{User: "pawl", Password: func() (string, error) { return "", os.ErrNotExist }}, ErrFiles},
	} {
		var said lines
		opts := tc.opts
		opts.Logger = slog.New(slog.NewTextHandler(&said, nil))
		err := refusal(t, c, opts)
		if err == nil {
			t.Errorf("%s: it starts; %s", name, said.text())
			continue
		}
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		if strings.Contains(err.Error()+said.text(), password) {
			t.Errorf("%s: the password is in %v", name, err)
		}
	}
}

// lines takes in what is logged.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

var _ io.Writer = (*lines)(nil)

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Etcd and pawl show each other certificates.
func TestTLS(t *testing.T) { sideBySide(t, bothShowCertificates) }

func bothShowCertificates(t *testing.T, version string) {
	id, stranger := etcdtest.NewIdentity(t), etcdtest.NewIdentity(t)
	c := etcdtest.Start(t, etcdtest.Options{Version: version, Identity: id})
	good := TLS{CA: id.CA, Cert: id.ClientCert, Key: id.ClientKey}
	newAppender(t, external(t, c, ExternalOptions{TLS: good})).appendMany(10)

	expired := good
	expired.Cert, expired.Key = id.Expired()
	nobody := filepath.Join(t.TempDir(), "nothing")
	for name, tc := range map[string]struct {
		files TLS
		want  error
	}{
		"somebody else's authority": {TLS{CA: stranger.CA, Cert: id.ClientCert, Key: id.ClientKey}, ErrRefused},
		"somebody else's client":    {TLS{CA: id.CA, Cert: stranger.ClientCert, Key: stranger.ClientKey}, ErrRefused},
		"no certificate":            {TLS{CA: id.CA}, ErrRefused},
		"an expired certificate":    {expired, ErrRefused},
		"no such file":              {TLS{CA: nobody}, ErrFiles},
		"a key for another":         {TLS{CA: id.CA, Cert: id.ClientCert, Key: stranger.ClientKey}, ErrFiles},
		"a key where a CA belongs":  {TLS{CA: id.ClientKey}, ErrFiles},
	} {
		if err := refusal(t, c, ExternalOptions{TLS: tc.files}); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
	}
}

// What an operator reads when the files for TLS do not suit, at the start and from a
// member that is asked while all runs.
func TestWantsAClientCertificate(t *testing.T) {
	starts(t)
	id, stranger := etcdtest.NewIdentity(t), etcdtest.NewIdentity(t)
	c := etcdtest.Start(t, etcdtest.Options{Identity: id})
	for _, tc := range []struct {
		files TLS
		said  string
	}{
		{TLS{CA: id.CA}, "it asks for a client certificate, and none was shown"},
		{TLS{CA: id.CA, Cert: stranger.ClientCert, Key: stranger.ClientKey}, "it does not take the client certificate that was shown"},
		{TLS{CA: stranger.CA}, "its certificate is of an unknown authority"},
	} {
		said := "no TLS with the etcd at " + c.Members[0].Address() + ": " + tc.said
		if err := refusal(t, c, ExternalOptions{TLS: tc.files}); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("a start says %v, expected %q", err, said)
		}
		m, err := dial(c.Endpoints(), tc.files, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		// gRPC may have seen no more than that the connection ended; it tries again.
		testwait.Until(t, bound, said, func() bool {
			_, err := kv{m}.Txn(t.Context(), kvlog.Txn{What: kvlog.WhatRead, Then: []kvlog.Op{{Key: "a"}}})
			return err != nil && strings.Contains(err.Error(), said) && aboutTLS(err)
		})
		if err := m.close(); err != nil {
			t.Error(err)
		}
	}
}

// Etcd's own certificate has run out.
func TestExpiredServer(t *testing.T) {
	starts(t)
	id := etcdtest.NewIdentity(t)
	c := etcdtest.Start(t, etcdtest.Options{Identity: id})
	cert, key := id.Expired()
	c.Members[0].Kill()
	id.ServerCert, id.ServerKey = cert, key
	if err := c.Members[0].Start(); err != nil {
		t.Fatal(err)
	}
	good := TLS{CA: id.CA, Cert: id.ClientCert, Key: id.ClientKey}
	if err := refusal(t, c, ExternalOptions{TLS: good}); !errors.Is(err, ErrRefused) {
		t.Errorf("an expired server: %v, want ErrRefused", err)
	}
}
