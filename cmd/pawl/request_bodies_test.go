package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
	"github.com/pawlproject/pawl/internal/access"
)

// announce opens a connection to the HTTP front and sends the head of an acquire,
// whose body does not come.
func (f *fortress) announce(who, path string, length int) net.Conn {
	f.t.Helper()
	conn, err := (&tls.Dialer{Config: f.web.Transport.(*http.Transport).TLSClientConfig}).DialContext(f.t.Context(), "tcp", f.http)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n",
		path, f.secret(who), length); err != nil {
		f.t.Fatal(err)
	}
	return conn
}

func (f *fortress) status(conn net.Conn) int {
	f.t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		f.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// Who has no right anywhere, or says that it sends too much, is answered before
// anything of its body is there: "100 Continue" would ask for it.
func TestRightsCheckedBeforeBodyIsRead(t *testing.T) {
	f := newFortress(t)
	for _, tc := range []struct {
		who, path string
		length    int
		status    int
	}{
		{"eye", "/v1/leases", rest.BodyMax, http.StatusForbidden},
		{"eye", "/v1/sessions", rest.SmallBodyMax, http.StatusForbidden},
		{"eye", "/v1/break", 100, http.StatusForbidden},
		{"a", "/v1/leases", rest.BodyMax + 1, http.StatusBadRequest},
		{"a", "/v1/sessions", rest.SmallBodyMax + 1, http.StatusBadRequest},
		{"a", "/v1/leases/x/renew", rest.SmallBodyMax + 1, http.StatusBadRequest},
		{"a", "/v1/leases", rest.BodyMax, http.StatusContinue},
	} {
		if got := f.status(f.announce(tc.who, tc.path, tc.length)); got != tc.status {
			t.Errorf("%s, %d bytes to %s: %d, expected %d", tc.who, tc.length, tc.path, got, tc.status)
		}
	}
	f.audited(`"identity":"eye"`, `"verb":"acquire"`, `"outcome":"denied"`)
}

// One identity has bodies on their way for all the room that it may have. Its
// next large one waits; its small ones, and the large ones of others, do not.
func TestBodiesOfOneIdentityDoNotBlockOthers(t *testing.T) {
	f := newFortress(t)
	for range access.BytesMax / rest.BodyMax {
		if got := f.status(f.announce("a", "/v1/leases", rest.BodyMax)); got != http.StatusContinue {
			t.Fatalf("a body that there is room for: %d", got)
		}
	}
	next := f.announce("a", "/v1/leases", rest.BodyMax)
	if code, _, text := f.ask("a", "POST", "/v1/leases", `{"name":"a/1"}`); code != http.StatusOK {
		t.Errorf("a small body of the same identity: %d %s", code, text)
	}
	large := `{"name":"m/1","label":"x"` + strings.Repeat(" ", rest.BodyMax/2) + `}`
	if code, _, text := f.ask("root", "POST", "/v1/leases", large); code != http.StatusOK {
		t.Errorf("a large body of another identity: %d %s", code, text)
	}
	// After its wait it is told to come again: the room is taken until the bodies are
	// given up, which began before it.
	if got := f.status(next); got != http.StatusTooManyRequests && got != http.StatusContinue {
		t.Errorf("the next large body: %d", got)
	}
}

// Where one request ends and the next begins is never in doubt: what stands in a
// body, or behind a request that was refused, is not carried out.
func TestRequestsAreNotSmuggled(t *testing.T) {
	f := newFortress(t)
	auth := "Host: localhost\r\nAuthorization: Bearer " + f.secret("a") + "\r\n"
	const body = `{"name":"a/smuggled"}`
	inner := "POST /v1/leases HTTP/1.1\r\n" + auth + fmt.Sprintf("Content-Length: %d\r\nConnection: close\r\n\r\n", len(body)) + body
	head := "POST /v1/sessions HTTP/1.1\r\n" + auth
	for name, text := range map[string]string{
		"two lengths":              head + fmt.Sprintf("Content-Length: 2\r\nContent-Length: %d\r\n\r\n{}", len(inner)+2) + inner,
		"a coding that is none":    head + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + inner,
		"chunked, and not last":    head + "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n" + inner,
		"a length with a sign":     head + "Content-Length: +0\r\n\r\n" + inner,
		"a body where none is":     "DELETE /v1/sessions/00000000000000000000000000000000 HTTP/1.1\r\n" + auth + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(inner)) + inner,
		"a body of a refused one":  "GET /v1/status HTTP/1.1\r\nHost: localhost\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(inner)) + inner,
		"an end of line in a path": "GET /v1/locks?prefix=x%0d%0a HTTP/1.1\r\n" + auth + fmt.Sprintf("Content-Length: %d\r\nConnection: close\r\n\r\n", len(inner)) + inner,
	} {
		// The connection is closed behind each, so that what would be taken for a
		// second request would have been answered.
		answer := f.raw(text + "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		codes := codesOf(t, answer)
		if len(codes) == 0 || codes[0] < 400 {
			t.Errorf("%s: %v", name, codes)
		}
		if shown := f.as("root", "show", "a/smuggled").stdout; !strings.Contains(shown, "is free") {
			t.Errorf("%s: what stood behind was carried out: %v %s", name, codes, shown)
		}
	}
	// The test itself would see it.
	if codes := codesOf(t, f.raw(inner)); len(codes) != 1 || codes[0] != http.StatusOK {
		t.Errorf("sent openly: %v", codes)
	}
}
