package authority_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/authority"
	"github.com/pawlproject/pawl/internal/testcert"
)

func TestLoadReportsInvalidAuthority(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("# none\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{empty, empty + "x"} {
		if p, err := authority.Load(path); err == nil {
			t.Errorf("%s: %v", path, p)
		}
	}
}

// A handshake believes what the file holds at that moment, with a copy of the
// configuration too. The server is named by its address, which TLS does not send.
func TestHandshakeReadsTheFileAgain(t *testing.T) {
	dir := t.TempDir()
	before, after := testcert.New(t, dir, "before"), testcert.New(t, dir, "after")
	file := filepath.Join(dir, "ca.pem")
	put := func(from ...string) {
		t.Helper()
		var all []byte
		for _, path := range from {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		if err := os.WriteFile(file, all, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(before.File)
	pool, err := authority.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	config := (&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}).Clone()
	creds := authority.Credentials(config).Clone()
	try := func(a *testcert.Authority) error {
		t.Helper()
		pair, err := tls.LoadX509KeyPair(a.Issue("server", nil))
		if err != nil {
			t.Fatal(err)
		}
		l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if conn, err := l.Accept(); err == nil {
				defer conn.Close()
				_ = conn.(*tls.Conn).HandshakeContext(context.Background()) // the client tells
				_, _ = conn.Read(make([]byte, 1))
			}
		}()
		raw, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		_, _, err = creds.ClientHandshake(t.Context(), l.Addr().String(), raw)
		return err
	}
	for _, step := range []struct {
		name                  string
		put                   []string
		takesBefore, takesNew bool
	}{
		{"as it was loaded", nil, true, false},
		{"both", []string{before.File, after.File}, true, true},
		{"the new one alone", []string{after.File}, false, true},
		{"no certificate", []string{os.DevNull}, false, true},
		{"the old one again", []string{before.File}, true, false},
	} {
		if step.put != nil {
			put(step.put...)
		}
		if err := try(before); (err == nil) != step.takesBefore {
			t.Errorf("%s: a server of the old authority: %v", step.name, err)
		}
		if err := try(after); (err == nil) != step.takesNew {
			t.Errorf("%s: a server of the new authority: %v", step.name, err)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := try(before); err != nil {
		t.Errorf("without the file: %v", err)
	}
	if c := (&tls.Config{MinVersion: tls.VersionTLS12}); authority.Fresh(c) != c || authority.Fresh(nil) != nil {
		t.Error("a configuration without a file is replaced")
	}
}

// What has no end is an error, and does not take all memory there is.
func TestAFileWithoutEnd(t *testing.T) {
	long := filepath.Join(t.TempDir(), "long")
	if err := errors.Join(os.WriteFile(long, nil, 0o600), os.Truncate(long, 8<<20+1)); err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Load(long); err == nil || !strings.Contains(err.Error(), "more than 8388608 bytes") {
		t.Errorf("%v", err)
	}
}
