package gcsbucket_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/gcsbucket"
)

// A client of Go's own follows a redirection of a write with a read. What is read is not what
// was written.
func TestARedirectedWriteIsNotDone(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Redirect(w, r, r.URL.String(), http.StatusMovedPermanently)
			return
		}
		fmt.Fprint(w, `{"generation":"7"}`)
	}))
	defer h.Close()
	b := gcsbucket.New(h.Client(), h.URL, "data")
	if tag, err := b.Put(t.Context(), "key", strings.NewReader("x"), 1, objguard.IfAbsent()); !errors.Is(err, guard.ErrUnknown) {
		t.Errorf("generation %s, %v", tag, err)
	}
}
