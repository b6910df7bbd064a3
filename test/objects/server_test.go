//go:build unix

package objects

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/s3bucket"
	"github.com/pawlproject/pawl/internal/testpostgres"
)

const (
	accessKey = "user1234"
	secretKey = "secretsecret"
)

// server is a store that speaks S3.
type server struct {
	url    string
	stop   func()
	bucket atomic.Int64
}

// servers are started once for all tests.
var (
	versity = sync.OnceValues(func() (*server, error) { return startVersity("1.8") })
	fake    = sync.OnceValues(func() (*server, error) { return startFake(), nil })
)

// good are the servers that the guard is tested on. gofakes3 keeps the conditions of
// Put, and no more is needed.
var good = map[string]func() (*server, error){"versitygw": versity, "gofakes3": fake}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, of := range running {
		of()
	}
	os.Exit(code)
}

var running []func()

func startVersity(version string) (*server, error) {
	program, err := filepath.Abs("../../.bin/versitygw-" + version)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w: make pinned builds it", err)
	}
	dir, err := os.MkdirTemp("", "versitygw")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close()
	as := func(cmd *exec.Cmd, dir string) {
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	}
	p, err := testpostgres.StartProcess(as, dir, "http://"+address, "KILL", program, "--port", address, "posix", dir)
	if err != nil {
		return nil, err
	}
	s := &server{url: "http://" + address, stop: func() { p.Stop(); _ = os.RemoveAll(dir) }}
	running = append(running, s.stop)
	return s, nil
}

func startFake() *server {
	h := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	running = append(running, h.Close)
	return &server{url: h.URL, stop: h.Close}
}

// client is a client of the server, over a transport of its own.
func (s *server) client(over http.RoundTripper) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.url), UsePathStyle: true, Region: "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: accessKey, SecretAccessKey: secretKey}, nil
		}),
		HTTPClient: &http.Client{Transport: over},
	})
}

// connections is a transport that keeps enough of them for races.
func connections() *http.Transport {
	return &http.Transport{MaxIdleConnsPerHost: 64}
}

// fresh makes a bucket that holds nothing.
func (s *server) fresh(t testing.TB, over http.RoundTripper) objguard.Bucket {
	t.Helper()
	c := s.client(over)
	name := fmt.Sprintf("bucket-%d", s.bucket.Add(1))
	if _, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	return s3bucket.New(c, name)
}

func started(t testing.TB, start func() (*server, error)) *server {
	t.Helper()
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
