//go:build unix

package objects

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/s3bucket"
	"github.com/pawlproject/pawl/internal/testversity"
)

// server is a store that speaks S3.
type server struct {
	url    string
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
	for _, stop := range running {
		stop()
	}
	os.Exit(code)
}

var running []func()

func startVersity(version string) (*server, error) {
	v, err := testversity.Start(version)
	if err != nil {
		return nil, err
	}
	running = append(running, func() { _ = v.Stop() })
	return &server{url: v.URL}, nil
}

func startFake() *server {
	h := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	running = append(running, h.Close)
	return &server{url: h.URL}
}

// client is a client of the server, over a transport of its own.
func (s *server) client(over http.RoundTripper) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: aws.String(s.url), UsePathStyle: true, Region: "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: testversity.AccessKey, SecretAccessKey: testversity.SecretKey}, nil
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
	if testing.Short() {
		t.Skip("-short: versitygw is built by make pinned")
	}
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
