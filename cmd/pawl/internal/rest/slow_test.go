package rest_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
)

// activeCell serves, and nothing else is asked of it.
type activeCell struct{ rest.Cell }

func (activeCell) Info() cell.Info { return cell.Info{Active: true} }

// oneConn is a listener for one connection.
type oneConn chan net.Conn

func (l oneConn) Accept() (net.Conn, error) {
	c, open := <-l
	if !open {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (l oneConn) Close() error   { return nil }
func (l oneConn) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 7421} }

// onPipe serves one connection, whose other end it returns with the channel on
// which the server says when it has closed it. To be called in a bubble.
func onPipe(t *testing.T) (client net.Conn, closed <-chan time.Time) {
	t.Helper()
	h, err := rest.NewHandler(rest.Options{
		Cell: activeCell{}, Clock: clock.Bubble(), Version: "test", Store: "memory",
		AllowedHost: rest.HostCheck("127.0.0.1:0", nil), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan time.Time, 1)
	s := &http.Server{Handler: h, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			over <- time.Now()
		}
	}}
	l := make(oneConn, 1)
	client, served := net.Pipe()
	l <- served
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		client.Close()
		close(l)
		_ = s.Close()
		<-done
	})
	return client, over
}

// A body that comes by the drop, or not at all, is given up after bodyWait, and
// the connection with it; also where the request is refused without its body.
func TestSlowBody(t *testing.T) {
	const lease = "POST /v1/leases HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	for what, c := range map[string]struct {
		head   string
		drops  int
		status int
		text   string
	}{
		"it stops":       {lease, 0, http.StatusBadRequest, "did not arrive whole within 10s"},
		"it drips":       {lease, 60, http.StatusBadRequest, "did not arrive whole within 10s"},
		"no such path":   {"POST /v1/nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n", 0, http.StatusNotFound, "nothing at this path"},
		"another host":   {"POST /v1/leases HTTP/1.1\r\nHost: elsewhere.example\r\n", 0, http.StatusForbidden, "does not answer for the host"},
		"another origin": {lease + "Sec-Fetch-Site: cross-site\r\n", 0, http.StatusForbidden, "another origin"},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, closed := onPipe(t)
				begun := time.Now()
				var sender sync.WaitGroup
				sender.Go(func() {
					_, err := fmt.Fprint(conn, c.head, "Content-Length: 100\r\n\r\n{")
					for range c.drops {
						if err != nil {
							return
						}
						time.Sleep(time.Second)
						_, err = conn.Write([]byte(" "))
					}
				})
				defer sender.Wait()
				r, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				text, _ := io.ReadAll(r.Body)
				if took := time.Since(begun); r.StatusCode != c.status || !strings.Contains(string(text), c.text) || took > 10*time.Second {
					t.Errorf("after %v: %d %s", took, r.StatusCode, text)
				}
				if took := (<-closed).Sub(begun); took > 11*time.Second {
					t.Errorf("the connection was closed after %v", took)
				}
			})
		})
	}
}

// A client that does not take its answer is cut off after answerWait.
func TestUnreadAnswerIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, closed := onPipe(t)
		begun := time.Now()
		if _, err := fmt.Fprintf(c, "GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		if took := (<-closed).Sub(begun); took != 30*time.Second {
			t.Errorf("the connection was closed after %v", took)
		}
	})
}
