package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/systemd"
	"github.com/pawlproject/pawl/internal/clock"
)

// A service manager that waits for it (Type=notify) is told when the server
// answers, and when it begins to stop.
func TestServeNotifiesSystemd(t *testing.T) {
	dir, err := os.MkdirTemp("", "pawl") // a socket's path has room for 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	at := filepath.Join(dir, "notify")
	told, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer told.Close()
	next := func() string {
		t.Helper()
		if err := told.SetReadDeadline(clock.System().Wall().Add(bound)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := told.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	s := launchUnder(t, func(c *exec.Cmd) { c.Env = append(c.Environ(), "NOTIFY_SOCKET="+at) }, "--store", "memory")
	if state := next(); state != "READY=1" {
		t.Fatalf("it says %q", state)
	}
	s.serves()
	s.want(0, "status")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if state := next(); state != "STOPPING=1" {
		t.Errorf("it says %q", state)
	}
	<-s.ended
	if code := shellCode(s.cmd.ProcessState); code != 0 {
		t.Errorf("it ended with %d", code)
	}
}

// One that is not there, or does not read, is no reason not to serve.
func TestServeWithoutAListeningSystemd(t *testing.T) {
	s := launchUnder(t, func(c *exec.Cmd) { c.Env = append(c.Environ(), "NOTIFY_SOCKET=/nowhere/notify") }, "--store", "memory")
	s.serves()
	if code := s.stop(syscall.SIGTERM); code != 0 || strings.Count(s.said(), "the service manager could not be told") != 2 {
		t.Errorf("%d:\n%s", code, s.said())
	}
	if err := systemd.Notify("", "READY=1", clock.System()); err != nil {
		t.Error(err)
	}

	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	at := filepath.Join(dir, "deaf")
	deaf, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: at, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	told := make(chan error, 1)
	go func() {
		var err error
		for range 10_000 { // more than any system keeps for one that does not read
			if err = systemd.Notify(at, "READY=1", clock.System()); err != nil {
				break
			}
		}
		told <- err
	}()
	select {
	case err := <-told:
		if err == nil {
			t.Error("nobody read, and it was told")
		}
	case <-time.After(bound):
		t.Error("it waits for one that does not read")
	}
}
