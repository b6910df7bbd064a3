package endtoend

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore/etcdtest"
	"github.com/pawlproject/pawl/internal/testwait"
)

// A standby reads the log of the active server, and goes on from there when that one is
// killed. Requests to its HTTP interface arrive at the active server.
func TestEtcdStandbyFollows(t *testing.T) {
	wholly(t)
	a, b := two(t, etcdtest.Start(t, etcdtest.Options{Members: 3}))
	c := dialBoth(t, a, b, 10*time.Second)
	held := acquire(t, c, "held")
	g := granting(t, c, "turn")
	for i := range testwait.Reps(5) {
		g.more(20, "grants before the kill")
		testwait.Until(t, bound, "the standby has read the log", func() bool {
			code, text := b.get("/v1/status")
			return code == http.StatusOK && strings.Contains(text, `"followed_batch":"`)
		})
		res, err := web.Post("http://"+b.http+"/v1/leases", "application/json", strings.NewReader(fmt.Sprintf(`{"name":"through the standby/%d"}`, i)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK || res.Request.URL.Host != a.http {
			t.Errorf("through the standby: %d from %s", res.StatusCode, res.Request.URL.Host)
		}
		a.stop(syscall.SIGKILL)
		g.more(1, "a grant by the other server")
		if !strings.Contains(b.said(), "going on from where the standby had read the log to") {
			t.Errorf("the take-over read everything")
		}
		a.launch()
		a, b = b, a
		testwait.Until(t, bound, "the killed server stands by", func() bool { return b.pointsAt(a) })
	}
	if err := held.Check(t.Context()); err != nil {
		t.Errorf("a lease held over all take-overs: %v", err)
	}
}
