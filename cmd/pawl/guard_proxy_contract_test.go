package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/guardtest"
	"github.com/pawlproject/pawl/guard/httpguard"
)

// listed is a service with lists, and the way to it through a proxy.
type listed struct {
	mu    sync.Mutex
	lists map[string][]string
	front string
	next  *http.Transport
	lose  *bool // whether the next request lands before its answer is lost; nil: it is not
}

// ServeHTTP appends the body to the list that the query names.
func (l *listed) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	l.mu.Lock()
	defer l.mu.Unlock()
	name := r.URL.Query().Get("list")
	l.lists[name] = append(l.lists[name], string(text))
}

var errAnswerLost = errors.New("test: the answer is lost")

// RoundTrip implements http.RoundTripper.
func (l *listed) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	lose := l.lose
	l.lose = nil
	l.mu.Unlock()
	if lose != nil && !*lose {
		// A connection was found, and what was written to it is gone.
		httptrace.ContextClientTrace(r.Context()).GotConn(httptrace.GotConnInfo{})
		return nil, errAnswerLost
	}
	res, err := l.next.RoundTrip(r)
	if lose != nil && err == nil {
		res.Body.Close()
		return nil, errAnswerLost
	}
	return res, err
}

func (l *listed) append(ctx context.Context, f guard.Fence, text string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.front+"/?list="+url.QueryEscape(f.Resource), strings.NewReader(text))
	if err != nil {
		return err
	}
	res, err := httpguard.Transport(l, proxyLease{f, ctx}).RoundTrip(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("test: %s", res.Status)
	}
	return nil
}

// The contract of every guard, through the proxy as a process with its marks in a file.
func TestGuardProxyContract(t *testing.T) {
	guardtest.Run(t, func(t *testing.T) guardtest.Resource {
		l := &listed{lists: map[string][]string{}, next: &http.Transport{MaxIdleConnsPerHost: 8}}
		t.Cleanup(l.next.CloseIdleConnections)
		service := httptest.NewServer(l)
		t.Cleanup(service.Close)
		l.front = guardProxy(t, service.URL, filepath.Join(t.TempDir(), "state.db"), "--drain-timeout", "1m").url
		client, err := httpguard.NewClient(l.front, l)
		if err != nil {
			t.Fatal(err)
		}
		return guardtest.Resource{
			Claim: client.Claim, Append: l.append, Seen: client.Seen, RaisesFirst: true,
			Read: func(_ context.Context, resource string) ([]string, error) {
				l.mu.Lock()
				defer l.mu.Unlock()
				return slices.Clone(l.lists[resource]), nil
			},
			LoseAnswer: func(landed bool) {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.lose = &landed
			},
			Busy: func(err error) bool { return errors.Is(err, httpguard.ErrBusy) },
		}
	})
}
