//go:build unix

package objects

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pawlproject/pawl/guard/guardtest"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
	"github.com/pawlproject/pawl/guard/objguard/gcsbucket"
	"github.com/pawlproject/pawl/guard/objguard/probe"
	"github.com/pawlproject/pawl/internal/testpostgres"
)

// startGCS starts a server with a bucket "data" that holds nothing; its URL.
func startGCS(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: fake-gcs-server is built by make pinned")
	}
	program, err := filepath.Abs("../../.bin/fake-gcs-server")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	as := func(cmd *exec.Cmd, dir string) { cmd.Dir = dir }
	p, err := testpostgres.StartProcess(as, t.TempDir(), "server started", "KILL", program,
		"-scheme", "http", "-host", "127.0.0.1", "-port", fmt.Sprint(port), "-backend", "memory")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	at := fmt.Sprintf("http://127.0.0.1:%d", port)
	resp, err := http.Post(at+"/storage/v1/b", "application/json", bytes.NewReader([]byte(`{"name":"data"}`)))
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusOK {
		t.Fatalf("make a bucket: %s", resp.Status)
	}
	return at
}

func TestGCS(t *testing.T) {
	at := startGCS(t)
	over := connections()
	defer over.CloseIdleConnections()
	t.Run("bucket", func(t *testing.T) {
		buckettest.Run(t, func(t *testing.T) objguard.Bucket {
			return gcsbucket.New(&http.Client{Transport: over}, startGCS(t), "data")
		})
	})
	for kind := range buckettest.Lists(objguard.Guard{}, nil) {
		t.Run(kind, func(t *testing.T) {
			n := 0
			guardtest.Run(t, func(*testing.T) guardtest.Resource {
				r := &relay{over: over}
				n++
				b := gcsbucket.New(&http.Client{Transport: r}, at, "data")
				return buckettest.Lists(objguard.New(b, fmt.Sprintf("%s/%d", kind, n)), r.loseNext)[kind]
			})
		})
	}
	t.Run("probe", func(t *testing.T) {
		b := gcsbucket.New(&http.Client{Transport: over}, at, "data")
		report, err := probe.Run(t.Context(), []objguard.Bucket{b}, "probe", probe.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range report {
			t.Logf("%-9s %s %s", r.Verdict, r.Property, r.Detail)
		}
		if !report.Safe() {
			t.Errorf("faults: %+v", report.Faults())
		}
	})
}
