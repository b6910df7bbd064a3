package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/testcert"
	"github.com/pawlproject/pawl/internal/testwait"
)

// trust is TLS towards the fortress, with a client's certificate if there is one.
func (f *fortress) trust(cert, key string) *tls.Config {
	f.t.Helper()
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	c.RootCAs.AppendCertsFromPEM([]byte(f.read(f.ca)))
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			f.t.Fatal(err)
		}
		// Whatever authorities the server names: an attacker does not care.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return c
}

// raw writes bytes to the HTTP front and returns all that comes back.
func (f *fortress) raw(text string) string {
	f.t.Helper()
	c, err := tls.Dial("tcp", f.http, f.trust("", ""))
	if err != nil {
		f.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(bound))
	go func() { _, _ = io.WriteString(c, text) }() // it may be cut off
	answer, _ := io.ReadAll(c)
	return string(answer)
}

// codesOf are the codes of the answers in what came back, in their order.
func codesOf(t *testing.T, answers string) (all []int) {
	t.Helper()
	for r := bufio.NewReader(strings.NewReader(answers)); ; {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			return all
		}
		all = append(all, res.StatusCode)
		_, _ = io.Copy(io.Discard, res.Body)
	}
}

// What proves nothing proves nothing, wherever it stands in a request, and nothing
// of it is answered.
func TestInvalidCredentialsRefusedOverHTTP(t *testing.T) {
	f := newFortress(t)
	good := f.secret("root")
	for name, c := range map[string]struct {
		target, header string
		code           int
	}{
		"good":                  {"/v1/status", "Authorization: Bearer " + good, 200},
		"none":                  {"/v1/status", "X: y", 401},
		"truncated":             {"/v1/status", "Authorization: Bearer " + good[:len(good)-1], 401},
		"more than it":          {"/v1/status", "Authorization: Bearer " + good + "x", 401},
		"another case":          {"/v1/status", "Authorization: Bearer " + strings.ToUpper(good), 401},
		"twice":                 {"/v1/status", "Authorization: Bearer " + good + "\r\nAuthorization: Bearer " + good, 401},
		"two in one":            {"/v1/status", "Authorization: Bearer " + good + ", Bearer " + good, 401},
		"another first":         {"/v1/status", "Authorization: Basic eA==\r\nauthorization: Bearer " + good, 401},
		"NUL":                   {"/v1/status", "Authorization: Bearer " + good + "\x00", 400},
		"a blank in the header": {"/v1/status", "Authorization : Bearer " + good, 400},
		"in a query":            {"/v1/status?authorization=Bearer%20" + good, "X: y", 401},
		"access_token":          {"/v1/status?access_token=" + good, "X: y", 401},
		"in a cookie":           {"/v1/status", "Cookie: authorization=Bearer " + good, 401},
		"for a proxy":           {"/v1/status", "Proxy-Authorization: Bearer " + good, 401},
		"forwarded":             {"/v1/status", "X-Forwarded-For: 127.0.0.1\r\nX-Forwarded-User: root", 401},
		"huge":                  {"/v1/status", "Authorization: Bearer " + strings.Repeat("x", 20_000), 401},
		"larger than a header":  {"/v1/status", "Authorization: Bearer " + strings.Repeat("x", 80_000), 431},
		"no path of ours":       {"/debug/pprof/heap", "Authorization: Bearer " + good, 404},
		"nobody asks for it":    {"/openapi.json", "X: y", 401},
	} {
		host := "localhost"
		answer := f.raw("GET " + c.target + " HTTP/1.1\r\nHost: " + host + "\r\n" + c.header + "\r\nConnection: close\r\n\r\n")
		if got := codesOf(t, answer); len(got) != 1 || got[0] != c.code {
			t.Errorf("%s: %v\n%s", name, got, answer)
		}
		if strings.Contains(answer, good[5:20]) || c.code != 200 && strings.Contains(answer, "default-") {
			t.Errorf("%s: the answer tells something: %s", name, answer)
		}
	}
	for _, target := range []string{"http://evil.example/v1/status", "//evil.example/v1/status", "https://evil.example:443/v1/status"} {
		answer := f.raw("GET " + target + " HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + good + "\r\nConnection: close\r\n\r\n")
		if got := codesOf(t, answer); len(got) != 1 || got[0] < 400 {
			t.Errorf("%s: %v", target, got)
		}
	}
	if s := f.said() + f.read(f.audit); strings.Contains(s, good[5:20]) {
		t.Error("the server wrote a credential down")
	}
}

// nobody calls everything there is by gRPC, under a proof that is none.
func TestInvalidCredentialsRefusedOverGRPC(t *testing.T) {
	f := newFortress(t)
	good := "Bearer " + f.secret("root")
	conn, err := grpc.NewClient("passthrough:///"+f.link, grpc.WithTransportCredentials(credentials.NewTLS(f.trust("", ""))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	for name, c := range map[string]struct {
		pairs []string
		code  codes.Code
	}{
		"good":         {[]string{"authorization", good}, codes.OK},
		"none":         {nil, codes.Unauthenticated},
		"twice":        {[]string{"authorization", good, "authorization", good}, codes.Unauthenticated},
		"binary":       {[]string{"authorization-bin", good}, codes.Unauthenticated},
		"both":         {[]string{"authorization-bin", good, "authorization", "Bearer x"}, codes.Unauthenticated},
		"truncated":    {[]string{"authorization", good[:len(good)-1]}, codes.Unauthenticated},
		"two in one":   {[]string{"authorization", good + "," + good}, codes.Unauthenticated},
		"in a cookie":  {[]string{"cookie", "authorization=" + good}, codes.Unauthenticated},
		"for grpc-web": {[]string{"x-authorization", good}, codes.Unauthenticated},
	} {
		call := metadata.NewOutgoingContext(ctx, metadata.Pairs(c.pairs...))
		_, err := linkpb.NewLinkClient(conn).Status(call, &linkpb.StatusRequest{})
		if status.Code(err) != c.code || err != nil && strings.Contains(err.Error(), good[12:30]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What is not ours is not there, for nobody and for anybody.
	for _, method := range []string{
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.health.v1.Health/Check",
		"/grpc.channelz.v1.Channelz/GetTopChannels", "/etcdserverpb.KV/Range", "/" + strings.Repeat("x", 8_000), "/v1.Link/Break",
	} {
		if err := conn.Invoke(ctx, method, &emptypb.Empty{}, &emptypb.Empty{}); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%.80s without a credential: %v", method, err)
		}
		call := metadata.NewOutgoingContext(ctx, metadata.Pairs("authorization", good))
		if err := conn.Invoke(call, method, &emptypb.Empty{}, &emptypb.Empty{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("%.80s: %v", method, err)
		}
	}
	f.audited(`"verb":"call"`)
	if strings.Contains(f.read(f.audit), "xxxxxxxxxx") || strings.Contains(f.read(f.audit), `"verb":"break"`) {
		t.Error("strangers choose the words of the audit log")
	}
}

// Certificates that others made under the name of one who may come in.
func TestInvalidCertificatesRefused(t *testing.T) {
	f := newFortress(t)
	status := func(cert, key string) (int, error) {
		client := &http.Client{Timeout: bound, Transport: &http.Transport{TLSClientConfig: f.trust(cert, key), DisableKeepAlives: true}}
		res, err := client.Get("https://" + f.http + "/v1/status")
		if err != nil {
			return 0, err
		}
		res.Body.Close()
		return res.StatusCode, nil
	}
	good, key := f.clients.Issue("good", nil, "machine.example")
	if code, err := status(good, key); code != http.StatusOK {
		t.Fatalf("a good one: %d, %v", code, err)
	}
	// Another authority with the same name, and a certificate that signed itself.
	twin := testcert.New(t, t.TempDir(), "clients")
	for name, issue := range map[string]func() (string, string){
		"another authority of the same name": func() (string, string) { return twin.Issue("twin", nil, "machine.example") },
		"its own authority": func() (string, string) {
			return testcert.New(t, t.TempDir(), "machine.example").Issue("self", nil, "machine.example")
		},
		"the server's authority": func() (string, string) {
			return testcert.New(t, t.TempDir(), "ca").Issue("ca", nil, "machine.example")
		},
		"over": func() (string, string) {
			return f.clients.Issue("over", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, "machine.example")
		},
		"not yet": func() (string, string) {
			return f.clients.Issue("early", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, "machine.example")
		},
		"for servers": func() (string, string) {
			return f.clients.Issue("use", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }, "machine.example")
		},
	} {
		if code, err := status(issue()); err == nil {
			t.Errorf("%s: %d", name, code)
		}
	}
	for name, dns := range map[string]string{"of nobody": "other.example", "a wildcard": "*.example", "another case": "MACHINE.example", "below it": "x.machine.example"} {
		if code, err := status(f.clients.Issue("named", nil, dns)); code != http.StatusUnauthorized {
			t.Errorf("%s: %d, %v", name, code, err)
		}
	}
	// Without TLS nobody is answered on either front.
	for _, front := range []string{f.http, f.link} {
		c, err := net.Dial("tcp", front)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(bound))
		_, _ = io.WriteString(c, "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+f.secret("root")+"\r\n\r\n")
		answer, _ := io.ReadAll(c)
		c.Close()
		if strings.Contains(string(answer), "200") || strings.Contains(string(answer), "default") {
			t.Errorf("without TLS: %q", answer)
		}
	}
}

// A connection that is kept open does not keep its certificate good.
func TestExpiredCertificateEndsOpenConnection(t *testing.T) {
	f := newFortress(t)
	cert, key := f.clients.Issue("short", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(4 * time.Second) }, "machine.example")
	dialled := 0
	transport := &http.Transport{DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled++
		d := tls.Dialer{Config: f.trust(cert, key)}
		return d.DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	web := &http.Client{Timeout: bound, Transport: transport}
	first := 0
	testwait.Until(t, bound, "the certificate is over", func() bool {
		res, err := web.Get("https://" + f.http + "/v1/status")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if first == 0 {
			first = res.StatusCode
		}
		return res.StatusCode == http.StatusUnauthorized
	})
	if first != http.StatusOK || dialled != 1 {
		t.Errorf("at first %d; %d connections", first, dialled)
	}
}
