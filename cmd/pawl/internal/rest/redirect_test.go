package rest_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// behind is a standby that knows the active server at an address.
type behind struct {
	*cell.Cell
	active string
}

func (b *behind) Info() cell.Info {
	return cell.Info{ActiveHTTP: b.active, ActiveTTL: 3 * time.Second}
}

func standbyOf(t *testing.T, active string) *client {
	t.Helper()
	clk := clock.System()
	c := cell.New(cell.Options{Store: memstore.NewDisk().Store(memstore.Options{Clock: clk, Sole: true}), Clock: clk, Name: "test"})
	return handlerOf(t, &behind{c, active})
}

// once answers with what the first server says.
func once(t *testing.T, method, url, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Transport{}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// A request at a standby arrives at the active server, with its method and its body.
func TestStandbySendsRequestsToTheActiveServer(t *testing.T) {
	active := serve(t)
	standby := standbyOf(t, strings.TrimPrefix(active.s.URL, "http://"))
	lease := standby.want(200, "POST", "/v1/leases", `{"name":"a b/ü","ttl":"30s"}`).text("lease")
	standby.want(200, "POST", "/v1/leases/"+lease+"/renew", "")
	locks := standby.want(200, "GET", "/v1/locks?name=a%20b%2F%C3%BC", "").body["locks"].([]any)
	if len(locks) != 1 {
		t.Errorf("%d locks are listed", len(locks))
	}
	standby.want(200, "DELETE", "/v1/leases/"+lease, "")

	res := once(t, "POST", standby.s.URL+"/v1/leases?x=%2F", `{"name":"a"}`)
	body, _ := io.ReadAll(res.Body)
	if res.StatusCode != 307 || res.Header.Get("Location") != active.s.URL+"/v1/leases?x=%2F" ||
		!strings.Contains(string(body), `"active_http":"`+strings.TrimPrefix(active.s.URL, "http://")+`"`) {
		t.Errorf("%d, to %q: %s", res.StatusCode, res.Header.Get("Location"), body)
	}
	for _, own := range []string{"/v1/status", "/livez", "/readyz", "/openapi.json"} {
		if res := once(t, "GET", standby.s.URL+own, ""); res.StatusCode != 200 {
			t.Errorf("%s: %d", own, res.StatusCode)
		}
	}
	if res := once(t, "GET", standby.s.URL+"/v1/nothing", ""); res.StatusCode != 404 {
		t.Errorf("nothing: %d", res.StatusCode)
	}
}

// A caller is not sent where it would come back to this server, or to nobody.
func TestStandbySendsNobodyInCircles(t *testing.T) {
	for _, active := range []string{"", "no port"} {
		standbyOf(t, active).want(503, "GET", "/v1/locks", "")
	}
	for _, x := range []struct {
		active, host, from string
		status             int
	}{
		{"locks.example:7421", "locks.example:7422", "192.0.2.1:9", 307},
		{"locks.example:7421", "Locks.example:7421", "192.0.2.1:9", 503},
		{"127.0.0.1:7421", "localhost:7422", "127.0.0.1:9", 307},
		{"127.0.0.1:7421", "localhost:7422", "192.0.2.1:9", 503},
		{"localhost:7421", "localhost:7422", "192.0.2.1:9", 503},
		{"[::1]:7421", "localhost:7422", "192.0.2.1:9", 503},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/locks", nil)
		r.Host, r.RemoteAddr = x.host, x.from
		w := httptest.NewRecorder()
		standbyOf(t, x.active).s.Config.Handler.ServeHTTP(w, r)
		if w.Code != x.status {
			t.Errorf("%+v: %d", x, w.Code)
		}
	}
}
