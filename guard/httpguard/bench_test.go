package httpguard_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard/httpguard"
)

// BenchmarkProxy shows what the guard costs beside a reverse proxy that guards nothing: a
// POST of 100 bytes over the loopback to a service that answers at once, by 8 callers.
func BenchmarkProxy(b *testing.B) {
	back := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	defer back.Close()
	next := &http.Transport{MaxIdleConnsPerHost: 64}
	defer next.CloseIdleConnections()
	plain := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(parsed(b, back.URL)) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}
	pooled := &httputil.ReverseProxy{Rewrite: plain.Rewrite, Transport: plain.Transport, BufferPool: &pool{}}
	gate := httpguard.NewGate(&httpguard.Memory{}, httpguard.Options{})
	text := strings.Repeat("x", 100)
	for _, c := range []struct {
		name   string
		front  http.Handler
		client http.RoundTripper
	}{
		{"plain", plain, next},
		{"plain, its buffers reused", pooled, next},
		{"guarded", gate.Proxy(parsed(b, back.URL), nil, quiet), httpguard.Transport(next, lease{fence(7), b.Context()})},
	} {
		b.Run(c.name, func(b *testing.B) {
			front := httptest.NewServer(c.front)
			defer front.Close()
			client := &http.Client{Transport: c.client}
			var mu sync.Mutex
			var all []time.Duration
			b.SetParallelism(4)
			b.RunParallel(func(pb *testing.PB) {
				var mine []time.Duration
				for pb.Next() {
					begun := time.Now()
					res, err := client.Post(front.URL, "text/plain", strings.NewReader(text))
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					mine = append(mine, time.Since(begun))
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, mine...)
			})
			slices.Sort(all)
			b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "req/s")
		})
	}
}

// pool reuses buffers, as the guard's proxy does.
type pool struct{ pool sync.Pool }

func (p *pool) Get() []byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 32<<10)
}

func (p *pool) Put(b []byte) { p.pool.Put(&b) }
