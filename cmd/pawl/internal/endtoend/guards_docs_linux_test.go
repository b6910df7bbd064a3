package endtoend

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/testversity"
	"github.com/pawlproject/pawl/internal/testwait"
)

// The program of docs/guards-objects.md is built as a user's module, and does on a store
// what the page says.
func TestObjectsProgram(t *testing.T) {
	wholly(t)
	store, err := testversity.Start("1.8")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := store.MakeBucket("my-bucket"); err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	s.up()
	dir := built(t, s, block(t, "docs/guards-objects.md", "go"), "github.com/aws/aws-sdk-go-v2/config", "github.com/aws/aws-sdk-go-v2/service/s3")
	for range 2 {
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "example"))
		cmd.Env = append(os.Environ(), "AWS_ENDPOINT_URL="+store.URL, "AWS_REGION=us-east-1",
			"AWS_ACCESS_KEY_ID="+testversity.AccessKey, "AWS_SECRET_ACCESS_KEY="+testversity.SecretKey)
		r := finish(t, cmd)
		said := regexp.MustCompile(`^paid\n.*stale fencing token \d+ for "orders/7", which has seen \d+\n$`)
		if r.code != 0 || r.stderr != "" || !said.MatchString(r.stdout) {
			t.Fatalf("the program ended with %v", r)
		}
	}
}

// The lines of docs/guards-http.md are answered as they say, after a lease has claimed
// behind the same proxy.
func TestHTTPGuardCurl(t *testing.T) {
	const listens = "127.0.0.1:7425"
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	s := newServer(t)
	s.up()
	proxy := freeAddress(t)
	begin(t, s.command(bound, "guard", "proxy", "--listen", proxy, "--upstream", upstream.URL, "--state", filepath.Join(t.TempDir(), "g.db")))
	testwait.Until(t, bound, "the proxy listens", func() bool {
		res, err := http.Get("http://" + proxy + "/.pawl/seen?r=trial")
		if err != nil {
			return false
		}
		res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	s.want(0, "run", "orders/7", "--claim", "http://"+proxy, "--", "true")
	lines := 0
	for line := range strings.Lines(block(t, "docs/guards-http.md", "proxy")) {
		line, says, ok := strings.Cut(strings.TrimSpace(line), "# ")
		if !ok || !strings.Contains(line, listens) {
			t.Fatalf("%q does not say what it is answered", line)
		}
		r := finish(t, exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(line, listens, proxy)))
		code, more, _ := strings.Cut(says, ", ")
		code, _, _ = strings.Cut(code, ":")
		if r.code != 0 || !strings.Contains(r.stdout, "HTTP/1.1 "+code+" ") || !strings.Contains(r.stdout, more) {
			t.Errorf("%q is answered with %v, not with %q", line, r, says)
		}
		lines++
	}
	if lines < 4 {
		t.Errorf("the page has %d lines", lines)
	}
}
