package server

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/clock"
)

// Clients of a front use up its own limit and nothing else; a connection that ends
// is free again.
func TestConnectionsAreLimited(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	l := &connectionLimit{Listener: inner, limit: 2, clock: clock.System(), log: slog.New(slog.NewTextHandler(&log, nil)), flag: "--listen"}
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	dial()
	first := <-accepted
	dial()
	<-accepted
	for range 3 {
		if n, err := dial().Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("one too many: %d, %v", n, err)
		}
	}
	first.Close()
	first.Close()
	dial()
	<-accepted
	if _, err := dial().Read(make([]byte, 1)); err == nil {
		t.Error("closing twice makes room for two")
	}
	inner.Close()
	<-accepted
	if n := strings.Count(log.String(), "as many connections"); n != 1 {
		t.Errorf("it was told %d times: %s", n, log.String())
	}
}

func TestConnectionsLeaveFilesForTheStore(t *testing.T) {
	for files, want := range map[uint64]int{0: connectionsMax, 1: 1, 64: 10, 256: 42, 512: 85, 1024: 256, 524_288: connectionsMax, 1 << 63: connectionsMax} {
		if got := connectionsOf(files); got != want || files > 64 && uint64(3*got)+min(filesKept, files/2) > files {
			t.Errorf("of %d files: %d, expected %d", files, got, want)
		}
	}
}

// A page in a browser on the server's machine reads no profiles, under whatever
// name it comes, and starts none.
func TestProfilesRefuseBrowsers(t *testing.T) {
	h := debugHandler(rest.HostCheck("127.0.0.1:6060", nil))
	for _, c := range []struct {
		host, site string
		code       int
	}{
		{"127.0.0.1:6060", "", 200},
		{"localhost:6060", "", 200},
		{"[::1]:6060", "none", 200},
		{"127.0.0.1:6060", "same-origin", 200},
		{"evil.example:6060", "", 403},
		{"evil.example", "same-origin", 403},
		{"localhost.evil.example", "", 403},
		{"", "", 403},
		{"127.0.0.1:6060", "cross-site", 403},
		{"localhost:6060", "same-site", 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "/debug/pprof/cmdline", nil)
		r.Host = c.host
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if body, _ := io.ReadAll(w.Body); w.Code != c.code || c.code != 200 && strings.Contains(string(body), "test") {
			t.Errorf("%+v: %d", c, w.Code)
		}
	}
}
