package httpguard_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard/httpguard"
)

// What is left of a body that was not read to its end is no request: its connection ends with
// the answer.
func TestRestOfABodyIsNoRequest(t *testing.T) {
	const whole = 1_000_000
	for name, how := range map[string]form{"middleware": asMiddleware, "proxy": asProxy} {
		for what, token := range map[string]int{"refused": 6, "answered early": 7} {
			t.Run(name+", "+what, func(t *testing.T) {
				var inside atomic.Int32
				gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{})
				front := httptest.NewServer(how(t, gate, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == "/inside" {
						inside.Add(1)
					}
					w.WriteHeader(http.StatusRequestEntityTooLarge)
				})))
				defer front.Close()
				if err := gate.Claim(t.Context(), fence(7)); err != nil {
					t.Fatal(err)
				}
				conn, err := net.Dial("tcp", strings.TrimPrefix(front.URL, "http://"))
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if err := conn.SetDeadline(time.Now().Add(stallBound)); err != nil {
					t.Fatal(err)
				}
				const head = "POST %s HTTP/1.1\r\nHost: x\r\nFencing-Token: %d;r=\"x\";cell=\"test-00000000000000aa\"\r\nContent-Length: %d\r\n\r\n"
				body := strings.Repeat(strings.Repeat("\r\n", 600)+fmt.Sprintf(head, "/inside", 7, 0), whole/1300)
				go func() {
					// The server may close first. A connection that it keeps ends with what was sent.
					_, _ = io.WriteString(conn, fmt.Sprintf(head, "/", token, len(body))+body)
					_ = conn.(*net.TCPConn).CloseWrite()
				}()
				in := bufio.NewReader(conn)
				n := 0
				for ; ; n++ {
					res, err := http.ReadResponse(in, &http.Request{Method: http.MethodPost})
					if errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("the connection is still open after %d answers", n)
					}
					if err != nil {
						break
					}
					_, _ = io.Copy(io.Discard, res.Body) // it may be cut off
				}
				if n > 1 || inside.Load() > 0 {
					t.Errorf("%d answers to one request; %d requests were read from its body", n, inside.Load())
				}
			})
		}
	}
}
