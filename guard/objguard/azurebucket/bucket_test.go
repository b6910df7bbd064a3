package azurebucket_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/azurebucket"
)

func bucket(t *testing.T, url string) azurebucket.Bucket {
	t.Helper()
	c, err := container.NewClientWithNoCredential(url+"/account/data", nil)
	if err != nil {
		t.Fatal(err)
	}
	return azurebucket.New(c)
}

// What a store's answer to a write means. A write is sent once, whatever the answer,
// though the client is one that repeats.
func TestAnswersToAWrite(t *testing.T) {
	denied := errors.New("none of the three")
	for _, c := range []struct {
		status int
		code   string
		want   error
	}{
		{201, "", nil},
		{412, "ConditionNotMet", objguard.ErrPrecondition},
		{409, "BlobAlreadyExists", objguard.ErrPrecondition},
		{404, "BlobNotFound", objguard.ErrNotFound},
		{404, "ContainerNotFound", denied},
		{412, "LeaseIdMissing", denied},
		{412, "LeaseIdMismatchWithBlobOperation", denied},
		{409, "BlobImmutableDueToPolicy", denied},
		{403, "AuthorizationFailure", denied},
		{413, "RequestBodyTooLarge", denied},
		{408, "", guard.ErrUnknown},
		{500, "OperationTimedOut", guard.ErrUnknown},
		{503, "ServerBusy", guard.ErrUnknown},
		{504, "", guard.ErrUnknown},
		{0, "", guard.ErrUnknown}, // the connection is cut
	} {
		var requests atomic.Int32
		var sent http.Header
		var got string
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests.Add(1)
			sent = r.Header
			body, err := io.ReadAll(r.Body)
			if got = string(body); err != nil || c.status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("ETag", `"tag"`)
			if c.code != "" {
				w.Header().Set("x-ms-error-code", c.code)
			}
			w.WriteHeader(c.status)
		}))
		body := strings.NewReader("before, behind")
		if _, err := body.Seek(8, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		tag, err := bucket(t, h.URL).Put(t.Context(), "key", body, 4, objguard.IfETag(`"old"`))
		h.Close()
		for _, known := range []error{objguard.ErrPrecondition, objguard.ErrConflict, objguard.ErrNotFound, guard.ErrUnknown} {
			if errors.Is(err, known) != (known == c.want) {
				t.Errorf("%d %s: %v", c.status, c.code, err)
			}
		}
		if (err == nil) != (c.want == nil) || err == nil && tag != `"tag"` {
			t.Errorf("%d %s: ETag %s, %v", c.status, c.code, tag, err)
		}
		if requests.Load() != 1 || sent.Get("If-Match") != `"old"` || got != "behi" {
			t.Errorf("%d %s: %d requests, headers %v, body %q", c.status, c.code, requests.Load(), sent, got)
		}
	}
}

// A redirection turns a write into a read, whose answers are none to the write.
func TestARedirectedWriteIsUnknown(t *testing.T) {
	for _, status := range []int{200, 201, 404, 412} {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				http.Redirect(w, r, "/elsewhere", http.StatusSeeOther)
				return
			}
			w.Header().Set("ETag", `"tag"`)
			w.Header().Set("x-ms-error-code", map[int]string{404: "BlobNotFound", 412: "ConditionNotMet"}[status])
			w.WriteHeader(status)
		}))
		_, err := bucket(t, h.URL).Put(t.Context(), "key", strings.NewReader("x"), 1, objguard.IfAbsent())
		h.Close()
		if !errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// nobody is a credential that cannot be had.
type nobody struct{}

func (nobody) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, errors.New("no credential")
}

// A write that was not sent took no effect.
func TestWhatWasNotSentIsNotUnknown(t *testing.T) {
	h := httptest.NewTLSServer(http.NotFoundHandler())
	defer h.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	closed := gone.URL
	gone.Close()
	without, err := container.NewClient(h.URL+"/account/data", nobody{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, b := range map[string]azurebucket.Bucket{
		"nobody listens": bucket(t, closed),
		"no credentials": azurebucket.New(without),
	} {
		_, err := b.Put(t.Context(), "key", strings.NewReader("x"), 1, objguard.IfAbsent())
		if err == nil || errors.Is(err, guard.ErrUnknown) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A listing goes on over pages that hold nothing above the key that it begins after,
// also on a store that does not know how to begin there.
func TestListingGoesOnOverPages(t *testing.T) {
	pages := map[string]string{"": "a", "2": "", "3": "c", "4": "d"}
	next := map[string]string{"": "2", "2": "3", "3": "4"}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := r.URL.Query().Get("marker")
		if from := r.URL.Query().Get("startFrom"); from != "a" {
			t.Errorf("a listing from %q", from)
		}
		name := pages[at]
		if name != "" {
			name = "<Blob><Name>" + name + "</Name></Blob>"
		}
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprintf(w, "<EnumerationResults><Blobs>%s</Blobs><NextMarker>%s</NextMarker></EnumerationResults>", name, next[at])
	}))
	defer h.Close()
	keys, more, err := bucket(t, h.URL).List(t.Context(), "", "a")
	if err != nil || !more || !slices.Equal(keys, []string{"c"}) {
		t.Errorf("keys %q, more %t, %v", keys, more, err)
	}
}
