package rest_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/testwait"
)

func manyNames(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	return names
}

// lock reads one name; free: it is not listed.
func (c *client) lock(name string) (lock map[string]any, held bool) {
	c.t.Helper()
	page := c.want(200, "GET", "/v1/locks?name="+name, "")
	locks := page.body["locks"].([]any)
	if len(locks) == 0 {
		return nil, false
	}
	return locks[0].(map[string]any), true
}

func holders(lock map[string]any) (all []map[string]any) {
	for _, h := range lock["holders"].([]any) {
		all = append(all, h.(map[string]any))
	}
	return all
}

// token reads a number that is a string in JSON.
func token(t *testing.T, s string) guard.Token {
	t.Helper()
	n, err := guard.ParseToken(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestConcurrentReadersShareFence(t *testing.T) {
	c := serve(t)
	c.want(200, "DELETE", "/v1/leases/"+c.want(200, "POST", "/v1/leases", `{"name":"a"}`).text("lease"), "")
	first := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h","shared":true}`)
	second := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h","shared":true,"label":"second"}`)
	if first.text("fence") != first.text("fencing_token") || second.text("fence") != first.text("fence") ||
		token(t, second.text("fencing_token")) <= token(t, first.text("fencing_token")) {
		t.Errorf("two readers have %v and %v", first.body, second.body)
	}
	lock, _ := c.lock("a")
	if h := holders(lock); len(h) != 2 || h[0]["shared"] != true || h[1]["shared"] != true || lock["slots"] != 0.0 || lock["slots_in_use"] != 0.0 {
		t.Errorf("two readers are listed as %v", lock)
	}
	c.refused(409, "held", "POST", "/v1/leases", `{"name":"a"}`)
	// False is exclusive, as absent is.
	c.refused(409, "held", "POST", "/v1/leases", `{"name":"a","shared":false}`)
	c.want(200, "DELETE", "/v1/leases/"+first.text("lease"), "")
	third := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h","shared":true}`)
	if third.text("fence") != first.text("fence") {
		t.Errorf("the run began with %v and goes on with %v", first.body, third.body)
	}
	for _, l := range []answer{second, third} {
		c.want(200, "DELETE", "/v1/leases/"+l.text("lease"), "")
	}
	writer := c.want(200, "POST", "/v1/leases", `{"name":"a"}`)
	if token(t, writer.text("fence")) <= token(t, third.text("fencing_token")) {
		t.Errorf("after the reader %v came the writer %v", third.body, writer.body)
	}
}

// A reader that comes later does not pass a writer that waits.
func TestWaitersSayWhetherTheyShare(t *testing.T) {
	c := serve(t)
	reader := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h","shared":true}`)
	answers := make(chan answer, 2)
	for i, body := range []string{`{"name":"a","wait":"1h","ttl":"1h"}`, `{"name":"a","wait":"1h","ttl":"1h","shared":true}`} {
		go func() { answers <- c.do("POST", "/v1/leases", body) }()
		testwait.Until(t, bound, "it stands in the queue", func() bool {
			lock, _ := c.lock("a")
			return len(lock["waiters"].([]any)) == i+1
		})
	}
	c.refused(409, "held", "POST", "/v1/leases", `{"name":"a","shared":true}`)
	lock, _ := c.lock("a")
	if got := mustJSON(lock["waiters"]); strings.Index(got, `"shared":false`) > strings.Index(got, `"shared":true`) {
		t.Errorf("the queue is %s", got)
	}
	c.want(200, "DELETE", "/v1/leases/"+reader.text("lease"), "")
	writer := <-answers
	if writer.status != 200 || writer.text("fence") != writer.text("fencing_token") {
		t.Errorf("the writer got %d %v", writer.status, writer.body)
	}
	c.want(200, "DELETE", "/v1/leases/"+writer.text("lease"), "")
	if a := <-answers; a.status != 200 {
		t.Errorf("the reader got %d %v", a.status, a.body)
	}
}

// C08, C41: what is free and what is in use add up at every reading, and a
// permit is given back once, by its holder.
func TestSlots(t *testing.T) {
	c := serve(t)
	const body = `{"name":"a","ttl":"1h","slots":3}`
	inUse := func(n int) {
		t.Helper()
		lock, _ := c.lock("a")
		if lock["slots"] != 3.0 || lock["slots_in_use"] != float64(n) || len(holders(lock)) != n {
			t.Errorf("with %d slots in use the lock is %v", n, lock)
		}
	}
	var leases []answer
	for slot := 1.0; slot <= 3; slot++ {
		l := c.want(200, "POST", "/v1/leases", body)
		if l.body["slot"] != slot || l.text("fence") != l.text("fencing_token") {
			t.Errorf("slot %v is %v", slot, l.body)
		}
		leases = append(leases, l)
		inUse(int(slot))
	}
	if a := c.refused(409, "held", "POST", "/v1/leases", body); a.body["holder"] == nil {
		t.Errorf("a refusal does not say who holds: %v", a.body)
	}
	c.refused(409, "conflict", "POST", "/v1/leases", `{"name":"a","slots":4}`)
	c.refused(409, "conflict", "POST", "/v1/leases", `{"name":"a"}`)
	c.refused(409, "conflict", "POST", "/v1/leases", `{"name":"a","shared":true,"wait":"1h"}`)
	c.want(200, "DELETE", "/v1/leases/"+leases[1].text("lease"), "")
	inUse(2)
	c.refused(404, "gone", "DELETE", "/v1/leases/"+leases[1].text("lease"), "")
	c.refused(404, "gone", "DELETE", "/v1/leases/"+strings.Repeat("0", 32), "")
	inUse(2)
	if l := c.want(200, "POST", "/v1/leases", body); l.body["slot"] != 2.0 || l.text("fencing_token") <= leases[2].text("fencing_token") {
		t.Errorf("the slot that came free is %v", l.body)
	}
	inUse(3)
	// Each holder is broken by its own token.
	c.want(200, "POST", "/v1/break", `{"name":"a","fencing_token":`+quote(leases[2].text("fencing_token"))+`,"reason":"r","now":true}`)
	inUse(2)
}

// C08: acquires that are given up at any moment leave no permit behind.
func TestAbandonedSlotsAreReturned(t *testing.T) {
	c := serve(t)
	const body = `{"name":"a","ttl":"1h","slots":3,"wait":"1ms"}`
	answers := make(chan answer, 40)
	for range cap(answers) {
		go func() { answers <- c.do("POST", "/v1/leases", body) }()
	}
	granted := 0
	for range cap(answers) {
		switch a := <-answers; {
		case a.status == 200:
			granted++
			c.want(200, "DELETE", "/v1/leases/"+a.text("lease"), "")
		case a.text("reason") != "held":
			t.Errorf("one got %d %v", a.status, a.body)
		}
	}
	if lock, held := c.lock("a"); held {
		t.Errorf("after %d grants, all given back, there is %v", granted, lock)
	}
	for range 3 {
		c.want(200, "POST", "/v1/leases", `{"name":"a","slots":3}`)
	}
	c.refused(409, "held", "POST", "/v1/leases", `{"name":"a","slots":3}`)
}

// C08: a caller that disconnects while it asks, waits or is granted keeps no permit
// for longer than a TTL, and there are never more than there are.
func TestSlotsOfDisconnectedCallersAreReturned(t *testing.T) {
	c := serve(t)
	const clients = 60
	ends := make([]context.CancelFunc, clients)
	first, all := make(chan struct{}, clients), make(chan struct{}, clients)
	for i := range clients {
		var ctx context.Context
		ctx, ends[i] = context.WithCancel(t.Context())
		body := strings.NewReader(`{"name":"a","ttl":"1s","slots":3,"wait":"1h"}`)
		r, err := http.NewRequestWithContext(ctx, "POST", c.s.URL+"/v1/leases", body)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if res, err := c.s.Client().Do(r); err == nil {
				first <- struct{}{}
				res.Body.Close()
			}
			all <- struct{}{}
		}()
	}
	<-first
	for i, end := range ends {
		end()
		if lock, held := c.lock("a"); i%10 == 0 && held && (lock["slots"] != 3.0 || lock["slots_in_use"].(float64) > 3) {
			t.Errorf("while they hang up the lock is %v", lock)
		}
	}
	for range clients {
		<-all
	}
	testwait.Until(t, bound, "every permit has come back", func() bool {
		_, held := c.lock("a")
		return !held
	})
	for slot := 1.0; slot <= 3; slot++ {
		if l := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h","slots":3}`); l.body["slot"] != slot {
			t.Errorf("slot %v is %v", slot, l.body)
		}
	}
	c.refused(409, "held", "POST", "/v1/leases", `{"name":"a","slots":3}`)
}

func TestSeveralNamesAllOrNothing(t *testing.T) {
	c := serve(t)
	other := c.want(200, "POST", "/v1/leases", `{"name":"b","ttl":"1h"}`)
	if a := c.refused(409, "held", "POST", "/v1/leases", `{"names":["a","b"]}`); !strings.Contains(a.text("detail"), `"b"`) {
		t.Errorf("the refusal does not say which: %v", a.body)
	}
	if lock, held := c.lock("a"); held {
		t.Errorf("a is %v although b was not to be had", lock)
	}
	c.want(200, "DELETE", "/v1/leases/"+other.text("lease"), "")
	l := c.want(200, "POST", "/v1/leases", `{"names":["a","b","a"],"ttl":"1h"}`)
	tok := l.text("fencing_token")
	want := fmt.Sprintf(`[{"fence":%q,"name":"a","slot":0},{"fence":%q,"name":"b","slot":0}]`, tok, tok)
	if got := mustJSON(l.body["names"]); got != want {
		t.Errorf("the names are %s, expected %s", got, want)
	}
	for _, key := range []string{"name", "fence", "slot"} {
		if v, there := l.body[key]; there {
			t.Errorf("a lease of several names has the %s %v, as if it were one", key, v)
		}
	}
	for _, name := range []string{"a", "b"} {
		if lock, _ := c.lock(name); holders(lock)[0]["fencing_token"] != tok {
			t.Errorf("%s is %v", name, lock)
		}
	}
	c.want(200, "DELETE", "/v1/leases/"+l.text("lease"), "")
	for _, name := range []string{"a", "b"} {
		if lock, held := c.lock(name); held {
			t.Errorf("after the release %s is %v", name, lock)
		}
	}
	// One name asked for as a list is answered as one; slots go with several names.
	one := c.want(200, "POST", "/v1/leases", `{"names":["a"],"slots":2}`)
	if got := mustJSON(one.body["names"]); !strings.Contains(got, `"slot":1`) || one.body["name"] != nil {
		t.Errorf("a list of one name is answered with %v", one.body)
	}
	c.want(200, "POST", "/v1/leases", `{"names":`+mustJSON(manyNames(bounds.NamesMax))+`}`)
}

func TestSharedLeaseOfSeveralNamesHasFencePerName(t *testing.T) {
	c := serve(t)
	first := c.want(200, "POST", "/v1/leases", `{"name":"b","ttl":"1h","shared":true}`)
	l := c.want(200, "POST", "/v1/leases", `{"names":["a","b"],"ttl":"1h","shared":true}`)
	want := fmt.Sprintf(`[{"fence":%q,"name":"a","slot":0},{"fence":%q,"name":"b","slot":0}]`, l.text("fencing_token"), first.text("fence"))
	if got := mustJSON(l.body["names"]); got != want {
		t.Errorf("the names are %s, expected %s", got, want)
	}
}

func TestValueIsShown(t *testing.T) {
	c := serve(t)
	for _, value := range [][]byte{{}, []byte("10.0.0.2:8080"), {0, 0xff, '\n'}, make([]byte, bounds.ValueMax)} {
		text := base64.StdEncoding.EncodeToString(value)
		l := c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h","value":`+quote(text)+`}`)
		if lock, _ := c.lock("a"); lock["value"] != text {
			t.Errorf("%.20q is shown as %.20q", text, lock["value"])
		}
		if _, there := l.body["value"]; there {
			t.Error("the holder is told its own value")
		}
		c.want(200, "DELETE", "/v1/leases/"+l.text("lease"), "")
	}
	// The largest value and the longest names fit one request, however written.
	var names []string
	for i := range bounds.NamesMax {
		names = append(names, `"`+strings.Repeat(`\u006e`, bounds.NameMax-2)+fmt.Sprintf("%02d", i)+`"`)
	}
	text := base64.StdEncoding.EncodeToString(make([]byte, bounds.ValueMax))
	c.want(200, "POST", "/v1/leases", `{"value":"`+text+`","names":[`+strings.Join(names, ",")+`]}`)
}

// C25: zero is zero, and what is closed says for how long.
func TestLockDelay(t *testing.T) {
	c := serve(t)
	take := func(more string) answer {
		t.Helper()
		return c.want(200, "POST", "/v1/leases", `{"name":"a","ttl":"1h"`+more+`}`)
	}
	end := func(l answer) {
		t.Helper()
		c.want(200, "POST", "/v1/break", `{"name":"a","fencing_token":`+quote(l.text("fencing_token"))+`,"reason":"r","now":true}`)
	}
	for _, none := range []string{``, `,"lock_delay":"0s"`} {
		end(take(none))
		if lock, held := c.lock("a"); held {
			t.Errorf("after a break without a delay (%s) there is %v", none, lock)
		}
	}
	c.want(200, "DELETE", "/v1/leases/"+take(`,"lock_delay":"1h"`).text("lease"), "")
	if lock, held := c.lock("a"); held {
		t.Errorf("a release closed the name: %v", lock)
	}
	held := take(`,"lock_delay":"1h"`)
	if lock, _ := c.lock("a"); lock["closed_for"] != "0s" {
		t.Errorf("while it is held the name is %v", lock)
	}
	end(held)
	lock, _ := c.lock("a")
	left, err := time.ParseDuration(fmt.Sprint(lock["closed_for"]))
	if err != nil || left <= 0 || left > time.Hour || len(holders(lock)) != 0 {
		t.Errorf("after the break the name is %v (%v)", lock, err)
	}
	if a := c.refused(409, "held", "POST", "/v1/leases", `{"name":"a"}`); !strings.Contains(a.text("detail"), "closed for") || a.body["holder"] != nil {
		t.Errorf("a closed name is refused with %v", a.body)
	}
	c.refused(409, "held", "POST", "/v1/leases", `{"name":"a","slots":2,"wait":"1ms"}`)
	c.want(200, "POST", "/v1/leases", `{"name":"a","shared":true}`)
}

// A repeat with other arguments is a conflict, whichever argument it is.
func TestRequestIDKnowsTheModes(t *testing.T) {
	c := serve(t)
	const body = `{"name":"a","ttl":"1h","request_id":"one","slots":3,"value":"YQ==","lock_delay":"1s"}`
	first, again := c.want(200, "POST", "/v1/leases", body), c.want(200, "POST", "/v1/leases", body)
	if first.text("lease") != again.text("lease") || again.body["slot"] != 1.0 {
		t.Errorf("the repeat of %v got %v", first.body, again.body)
	}
	for _, change := range []struct{ from, to string }{
		{`"slots":3`, `"slots":4`},
		{`,"slots":3`, ``},
		{`"slots":3`, `"shared":true`},
		{`"value":"YQ=="`, `"value":""`},
		{`"lock_delay":"1s"`, `"lock_delay":"0s"`},
		{`"lock_delay":"1s"`, `"lock_delay":"1s","claims":true`},
		{`"name":"a"`, `"names":["a","b"]`},
	} {
		c.refused(409, "conflict", "POST", "/v1/leases", strings.Replace(body, change.from, change.to, 1))
	}
}
