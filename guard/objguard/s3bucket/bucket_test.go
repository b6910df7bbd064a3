package s3bucket_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/s3bucket"
)

func bucket(url string, credentials error) s3bucket.Bucket {
	return s3bucket.New(s3.New(s3.Options{
		BaseEndpoint: &url, UsePathStyle: true, Region: "local",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "a", SecretAccessKey: "b"}, credentials
		}),
	}), "data")
}

// What a store's answer to a write means. A write is sent once, whatever the answer.
func TestAnswersToAWrite(t *testing.T) {
	denied := errors.New("none of the three")
	for _, c := range []struct {
		status int
		code   string
		want   error
	}{
		{200, "", nil},
		{412, "PreconditionFailed", objguard.ErrPrecondition},
		{409, "ConditionalRequestConflict", objguard.ErrConflict},
		{409, "OperationAborted", objguard.ErrConflict},
		{404, "NoSuchKey", objguard.ErrNotFound},
		{404, "NoSuchBucket", denied},
		{403, "AccessDenied", denied},
		{400, "InvalidRequest", denied},
		{501, "NotImplemented", denied},
		{408, "RequestTimeout", guard.ErrUnknown},
		{500, "InternalError", guard.ErrUnknown},
		{503, "SlowDown", guard.ErrUnknown},
		{504, "", guard.ErrUnknown},
		{0, "", guard.ErrUnknown}, // the connection is cut
	} {
		var requests atomic.Int32
		var sent http.Header
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			sent = r.Header
			if c.status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("ETag", `"tag"`)
			w.WriteHeader(c.status)
			if c.code != "" {
				fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", c.code)
			}
		}))
		tag, err := bucket(h.URL, nil).Put(t.Context(), "key", strings.NewReader("x"), 1, objguard.IfETag(`"old"`))
		h.Close()
		for _, known := range []error{objguard.ErrPrecondition, objguard.ErrConflict, objguard.ErrNotFound, guard.ErrUnknown} {
			if errors.Is(err, known) != (known == c.want) {
				t.Errorf("%d %s: %v", c.status, c.code, err)
			}
		}
		if (err == nil) != (c.want == nil) || err == nil && tag != `"tag"` {
			t.Errorf("%d %s: ETag %s, %v", c.status, c.code, tag, err)
		}
		if requests.Load() != 1 || sent.Get("If-Match") != `"old"` {
			t.Errorf("%d %s: %d requests, headers %v", c.status, c.code, requests.Load(), sent)
		}
	}
}

// A write that was not sent took no effect.
func TestWhatWasNotSentIsNotUnknown(t *testing.T) {
	h := httptest.NewServer(http.NotFoundHandler())
	closed := h.URL
	h.Close()
	for what, b := range map[string]s3bucket.Bucket{
		"nobody listens": bucket(closed, nil),
		"no credentials": bucket(closed, errors.New("none")),
	} {
		_, err := b.Put(t.Context(), "key", strings.NewReader("x"), 1, objguard.IfAbsent())
		if err == nil || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A client of Go's own follows a redirection of a write with a read. What is read is not what
// was written.
func TestARedirectedWriteIsNotDone(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			http.Redirect(w, r, r.URL.String(), http.StatusMovedPermanently)
			return
		}
		w.Header().Set("ETag", `"of another"`)
	}))
	defer h.Close()
	b := s3bucket.New(s3.New(s3.Options{
		BaseEndpoint: &h.URL, UsePathStyle: true, Region: "local", HTTPClient: h.Client(), Credentials: aws.AnonymousCredentials{},
	}), "data")
	if tag, err := b.Put(t.Context(), "key", strings.NewReader("x"), 1, objguard.IfAbsent()); !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("ETag %s, %v", tag, err)
	}
}

// Credentials are looked for before anything is sent. When the context ends meanwhile nothing
// was written.
func TestAContextThatEndsBeforeTheRequestIsNotUnknown(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	url := "http://127.0.0.1:1"
	b := s3bucket.New(s3.New(s3.Options{
		BaseEndpoint: &url, UsePathStyle: true, Region: "local",
		Credentials: aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			end()
			return aws.Credentials{}, ctx.Err()
		}),
	}), "data")
	_, err := b.Put(ctx, "key", strings.NewReader("x"), 1, objguard.IfAbsent())
	if !errors.Is(err, context.Canceled) || errors.Is(err, guard.ErrUnknown) {
		t.Errorf("the answer is %v", err)
	}
}

// Without an ETag there is nothing to expect, and without a length nothing tells a body that
// was cut.
func TestAnObjectWithoutETagOrLengthIsNotOpened(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"no ETag": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") },
		"no length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"tag"`)
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "x")
		},
	} {
		h := httptest.NewServer(answer)
		o, err := bucket(h.URL, nil).Get(t.Context(), "key")
		h.Close()
		if err == nil || errors.Is(err, objguard.ErrNotFound) {
			t.Errorf("%s: %+v, %v", name, o, err)
		}
	}
}

func TestPolicy(t *testing.T) {
	text, err := s3bucket.Policy("b", "p")
	if err != nil || !json.Valid(text) {
		t.Fatalf("%s (%v)", text, err)
	}
	for _, part := range []string{`"arn:aws:s3:::b/p/*"`, `"s3:if-none-match": "true"`, `"arn:aws:s3:::b/p/*/pawl=pointer"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is missing in %s", part, text)
		}
	}
	if _, err := s3bucket.Policy("", ""); err == nil {
		t.Error("no bucket passed")
	}
}
