package demo

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/pawlproject/pawl/guard/objguard"
)

// ownStore is a store with one bucket in memory, for a demo on a machine that has none. It
// speaks as much of S3's protocol as the demo needs: an object is read, and written under
// a condition, which it keeps.
type ownStore struct {
	url    string
	server *http.Server

	mu      sync.Mutex
	objects map[string][]byte
}

func startStore() (*ownStore, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start the demo's store: %w", err)
	}
	s := &ownStore{url: "http://" + l.Addr().String(), objects: map[string][]byte{}}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: dropMax}
	go func() { _ = s.server.Serve(l) }() // until it is stopped
	return s, nil
}

func (s *ownStore) stop() error {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), dropMax)
	defer cancel()
	return s.server.Shutdown(ctx)
}

func (s *ownStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code string) {
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, objguard.DataMax))
	if err != nil {
		refuse(http.StatusBadRequest, "IncompleteBody")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, there := s.objects[r.URL.Path]
	wanted, absent := r.Header.Get("If-Match"), r.Header.Get("If-None-Match") == "*"
	switch {
	case r.Method == http.MethodGet && there:
		w.Header().Set("ETag", etagOf(old))
		_, _ = w.Write(old) // a reader that went away reads nothing
	case r.Method == http.MethodGet, wanted != "" && !there:
		refuse(http.StatusNotFound, "NoSuchKey")
	case r.Method != http.MethodPut:
		refuse(http.StatusNotImplemented, "NotImplemented")
	case absent && there, wanted != "" && etagOf(old) != wanted:
		refuse(http.StatusPreconditionFailed, "PreconditionFailed")
	default:
		s.objects[r.URL.Path] = body
		w.Header().Set("ETag", etagOf(body))
	}
}

func etagOf(body []byte) string {
	sum := md5.Sum(body)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}
