package pawl_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/testcert"
	"github.com/pawlproject/pawl/pawltest"
)

const canary = "pawl_CANARYCANARYCANARYCANARYCANARYCANARY"

// However options, or a client, are printed: the credential is not in it.
func TestCredentialIsNotPrinted(t *testing.T) {
	o := pawl.Options{Credential: canary}
	s := pawltest.New(t)
	c, err := pawl.Dial(s.Context(t.Context()), s.Servers(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	var b bytes.Buffer
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&b, format, o)
		fmt.Fprintf(&b, format, &o)
		fmt.Fprintf(&b, format, o.Credential)
		fmt.Fprintf(&b, format, c)
	}
	b.WriteString(o.Credential.String())
	if err := json.NewEncoder(&b).Encode(map[string]any{"a": o.Credential}); err != nil {
		t.Fatal(err)
	}
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "o", o.Credential, "all", o)
	slog.New(slog.NewTextHandler(&b, nil)).Info("x", "o", o.Credential, "all", o)
	for _, shown := range []string{"CANARY", fmt.Sprintf("%x", "CANARY"), fmt.Sprintf("%X", "CANARY"), fmt.Sprint([]byte("CANARY"))} {
		if strings.Contains(b.String(), strings.Trim(shown, "[]")) {
			t.Errorf("%q is in %s", shown, b.String())
		}
	}
}

func TestCredentialIsSentOverTLSOrLoopbackOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credential")
	if err := os.WriteFile(file, []byte(canary+"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte(canary+"\n\n x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		server string
		o      pawl.Options
	}{
		"another machine":         {"203.0.113.1:7420", pawl.Options{Credential: canary}},
		"by a file":               {"203.0.113.1:7420", pawl.Options{CredentialFile: file}},
		"a name like the machine": {"localhost.example:7420", pawl.Options{Credential: canary}},
		"both":                    {"127.0.0.1:1", pawl.Options{Credential: canary, CredentialFile: file}},
		"no file":                 {"127.0.0.1:1", pawl.Options{CredentialFile: file + "x"}},
		"a blank":                 {"127.0.0.1:1", pawl.Options{Credential: canary + " "}},
		"more than one line":      {"127.0.0.1:1", pawl.Options{CredentialFile: bad}},
		"too long":                {"127.0.0.1:1", pawl.Options{Credential: pawl.Credential(strings.Repeat("x", 513))}},
	} {
		c, err := pawl.Dial(t.Context(), []string{c.server}, c.o)
		if c != nil || !errors.Is(err, pawl.ErrInvalid) || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoadTLS(t *testing.T) {
	dir := t.TempDir()
	ca := testcert.New(t, dir, "ca")
	cert, key := ca.Issue("client", nil)
	_, other := ca.Issue("other", nil)
	c, err := pawl.LoadTLS(ca.File, cert, key)
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.GetClientCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	ca.Issue("client", nil)
	second, err := c.GetClientCertificate(nil)
	if err != nil || bytes.Equal(first.Certificate[0], second.Certificate[0]) {
		t.Errorf("a new certificate is not read: %v", err)
	}
	if c, err := pawl.LoadTLS("", "", ""); err != nil || c.RootCAs != nil || c.GetClientCertificate != nil {
		t.Errorf("the system's authorities: %v", err)
	}
	for _, f := range [][3]string{{dir, "", ""}, {key, "", ""}, {ca.File, cert, ""}, {ca.File, "", key}, {ca.File, cert, other}, {"none", "", ""}} {
		if _, err := pawl.LoadTLS(f[0], f[1], f[2]); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%q: %v", f, err)
		}
	}
}

// C37: two clients that call themselves the same are two all the same.
func TestSameLabelSharesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := pawltest.New(t)
		o := pawl.Options{TTL: ttl, Label: "worker@host"}
		a, b := s.Dial(t, o), s.Dial(t, o)
		l := take(t, a, "x")
		var held *pawl.HeldError
		if _, err := b.TryAcquire(t.Context(), "x"); !errors.As(err, &held) || held.Label != o.Label {
			t.Fatalf("the second of the same label: %v", err)
		}
		got := later(t, b, "x")
		synctest.Wait()
		if n := s.Waiting(t, "x"); n != 1 {
			t.Errorf("%d wait", n)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if next := <-got; next.Token() <= l.Token() {
			t.Errorf("token %d after %d", next.Token(), l.Token())
		}
		if err := l.Check(t.Context()); err == nil {
			t.Error("the first one still holds what the second has")
		}
	})
}
