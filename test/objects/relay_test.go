//go:build unix

package objects

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

var errCut = errors.New("relay: the connection was cut")

var _ buckettest.Faults = (*relay)(nil)

// relay passes requests on to a server and loses, delays and repeats writes.
type relay struct {
	over http.RoundTripper
	next atomic.Int32 // the fate of the next write, plus 1; 0: none was set

	mu   sync.Mutex
	fate func() buckettest.Fate // of each write; nil: served
	late []*http.Request
}

// loseNext loses the next write's answer, or the write.
func (r *relay) loseNext(landed bool) {
	fate := buckettest.Lost
	if landed {
		fate = buckettest.Unanswered
	}
	r.next.Store(int32(fate) + 1)
}

func (r *relay) RoundTrip(q *http.Request) (*http.Response, error) {
	if q.Method == http.MethodGet {
		return r.over.RoundTrip(q)
	}
	fate := buckettest.Served
	if n := r.next.Swap(0); n > 0 {
		fate = buckettest.Fate(n - 1)
	} else if ask := r.asked(); ask != nil {
		fate = ask()
	}
	if fate == buckettest.Served {
		return r.over.RoundTrip(q)
	}
	var body []byte
	if q.Body != nil {
		var err error
		body, err = io.ReadAll(q.Body)
		if err := errors.Join(err, q.Body.Close()); err != nil {
			return nil, err
		}
	}
	again := func(ctx context.Context) *http.Request {
		c := q.Clone(ctx)
		c.Body = io.NopCloser(bytes.NewReader(body))
		return c
	}
	if fate == buckettest.Late || fate == buckettest.Twice {
		r.mu.Lock()
		r.late = append(r.late, again(context.WithoutCancel(q.Context())))
		r.mu.Unlock()
	}
	if fate == buckettest.Lost || fate == buckettest.Late {
		return nil, errCut
	}
	resp, err := r.over.RoundTrip(again(q.Context()))
	if fate == buckettest.Unanswered && err == nil {
		_, err = io.Copy(io.Discard, resp.Body)
		return nil, errors.Join(errCut, err, resp.Body.Close())
	}
	return resp, err
}

// Set sets what is asked for the fate of each write.
func (r *relay) Set(fate func() buckettest.Fate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fate = fate
}

func (r *relay) asked() func() buckettest.Fate {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fate
}

// Deliver lets the requests arrive that are late, up to n of them.
func (r *relay) Deliver(n int) {
	for ; n > 0; n-- {
		r.mu.Lock()
		if len(r.late) == 0 {
			r.mu.Unlock()
			return
		}
		q := r.late[0]
		r.late = r.late[1:]
		r.mu.Unlock()
		if resp, err := r.over.RoundTrip(q); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	}
}
