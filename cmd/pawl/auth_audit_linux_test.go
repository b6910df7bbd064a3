package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawlproject/pawl/internal/testwait"
)

// A disk that is full for the audit log stops nothing, and is told: in the log and
// in the metrics.
func TestFullDiskForAuditLogBlocksNothing(t *testing.T) {
	s := serve(t, "--store", "memory", "--audit-log", "/dev/full")
	for range 3 {
		if code, body := s.post("/v1/leases", `{"name":"a","slots":9}`); code != http.StatusOK {
			t.Errorf("%d %s", code, body)
		}
	}
	testwait.Until(t, bound, "the metrics tell", func() bool {
		_, body := s.get("/metrics")
		return strings.Contains(body, "\npawl_audit_failing 1\n") && !strings.Contains(body, "\npawl_audit_lost_total 0\n")
	})
	contains(t, s.said(), "audit log: lines are lost", "no space left on device")
}

// Where the log is required nothing is granted while it cannot be written, and
// what is held can be renewed and released.
func TestFullDiskForRequiredAuditLogBlocksGrants(t *testing.T) {
	s := serve(t, "--store", "memory", "--audit-log", "/dev/full", "--audit-required")
	code, body := s.post("/v1/leases", `{"name":"a"}`)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	l := read[lease](t, body)
	testwait.Until(t, bound, "it is refused", func() bool {
		code, body = s.post("/v1/leases", `{"name":"b","slots":9}`)
		return code == http.StatusServiceUnavailable && strings.Contains(body, "audit log")
	})
	if code, body := s.post("/v1/leases/"+l.Lease+"/renew", ""); code != http.StatusOK {
		t.Errorf("renew: %d %s", code, body)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+s.http+"/v1/leases/"+l.Lease, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Errorf("release: %d", res.StatusCode)
	}
}

// A hang-up begins a new file, and no line is lost between the two.
func TestHangUpRotatesAuditLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	s := serve(t, "--store", "memory", "--audit-log", path)
	lines := func(path string) int {
		raw, err := os.ReadFile(path)
		if err != nil {
			return 0
		}
		return strings.Count(string(raw), `"outcome":"granted"`)
	}
	const each = 20
	for round := range 3 {
		for range each {
			if code, body := s.post("/v1/leases", `{"name":"a","slots":100}`); code != http.StatusOK {
				t.Fatalf("%d %s", code, body)
			}
		}
		if round == 1 {
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
			if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			testwait.Until(t, bound, "it is opened again", func() bool { return strings.Contains(s.said(), "audit log: opened again") })
		}
	}
	if code := s.stop(syscall.SIGTERM); code != 0 {
		t.Errorf("ended with %d", code)
	}
	if a, b := lines(path+".1"), lines(path); a+b != 3*each || b < each {
		t.Errorf("%d lines and %d", a, b)
	}
}

// Each file that is read again has its line, which says what came of it: also
// where nobody sent a signal.
func TestReloadOutcomeIsLogged(t *testing.T) {
	f := newFortress(t)
	cert := filepath.Join(f.dir, "server.cert.pem")
	good := f.read(cert)
	if err := os.WriteFile(cert, []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.reload("auth file: in force")
	f.audited(`"verb":"reload","outcome":"failed","detail":"TLS: certificate `+cert, `"verb":"reload","outcome":"done","detail":"auth file"`)
	if strings.Contains(f.read(f.audit), `"outcome":"done","detail":"TLS"`) {
		t.Error("a certificate that cannot be used counts as read")
	}
	if err := os.WriteFile(cert, []byte(good), 0o600); err != nil {
		t.Fatal(err)
	}
	// The next handshakes find it.
	testwait.Until(t, bound, "the good certificate is noted", func() bool {
		f.must(0, "a", "ls", "a/")
		return strings.Contains(f.read(f.audit), `"verb":"reload","outcome":"done","detail":"TLS"`)
	})
	auth := f.read(f.auth)
	f.write("nonsense")
	f.reload("auth file: the new one cannot be used")
	f.audited(`"verb":"reload","outcome":"failed","detail":"auth file: `)
	f.write(auth)
}
