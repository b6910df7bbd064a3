package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/testwait"
)

// Who can only reach the server takes all the connections there are, on each of its
// fronts, and the store keeps the files it needs: a client that was there before
// is served, and afterwards everybody is.
func TestConnectionFloodLeavesFilesForStore(t *testing.T) {
	f := newFortressBy(t, func(t testing.TB, args ...string) *served {
		return launchUnder(t, func(cmd *exec.Cmd) {
			cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -n 400 && exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
		}, args...).serves()
	}, "--store", "embedded", "--data", filepath.Join(t.TempDir(), "data"))
	web := *f.web
	if code, _, body := f.ask("a", http.MethodPost, "/v1/sessions", `{"ttl":"1h"}`); code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	var held []net.Conn
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	for _, front := range []string{f.link, f.http} {
		for range 300 {
			c, err := net.DialTimeout("tcp", front, bound)
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, c)
		}
	}
	testwait.Until(t, bound, "the server says that there are too many", func() bool {
		return strings.Count(f.said(), "as many connections as there may be") == 2
	})
	// The connection of before is still there.
	f.web = &web
	for i := range 20 {
		if code, _, body := f.ask("a", http.MethodPost, "/v1/leases", `{"name":"a/1"}`); code != http.StatusOK && code != http.StatusConflict {
			t.Fatalf("request %d of who was there before: %d %s", i, code, body)
		}
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", f.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if len(open) > 300 {
		t.Errorf("%d files of 400 are open", len(open))
	}
	for _, c := range held {
		c.Close()
	}
	held = nil
	testwait.Until(t, bound, "everybody is let in again", func() bool { return f.as("a", "status").code == 0 })
}

// Both fronts close a connection that sends nothing, or half a request, in time.
func TestSilentConnectionsAreClosed(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for connections to be closed")
	}
	f := newFortress(t)
	ended := make(chan string)
	for _, front := range []string{f.link, f.http} {
		for what, first := range map[string]string{"nothing": "", "half a handshake": "\x16\x03\x01\x02\x00\x01"} {
			go func() {
				c, err := net.Dial("tcp", front)
				if err != nil {
					ended <- err.Error()
					return
				}
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(2 * bound))
				_, _ = io.WriteString(c, first)
				if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
					ended <- what + " on " + front + ": " + err.Error()
					return
				}
				ended <- ""
			}()
		}
	}
	for range 4 {
		if why := <-ended; why != "" {
			t.Error(why)
		}
	}
	if answer := f.raw("GET /v1/status HTTP/1.1\r\nHost: local"); strings.Contains(answer, "200") {
		t.Errorf("half a header: %q", answer)
	}
}

// What the server writes is for the user that it runs as alone, whatever the mask.
func TestServerFilesAreForItsUserAlone(t *testing.T) {
	old := syscall.Umask(0)
	defer syscall.Umask(old)
	data := filepath.Join(t.TempDir(), "data")
	f := newFortress(t, "--store", "embedded", "--data", data)
	f.must(0, "a", "acquire", "a/1")
	seen := 0
	err := filepath.WalkDir(data, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		seen++
		if info.Mode().Perm()&0o077 != 0 && d.IsDir() {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || seen < 4 {
		t.Errorf("%d files: %v", seen, err)
	}
	for _, path := range []string{f.audit, f.credential("a")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}
