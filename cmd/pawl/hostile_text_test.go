package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/pawlproject/pawl/cmd/pawl/internal/client"
	"github.com/pawlproject/pawl/internal/testwait"
)

// hostile is a text that acts on a terminal that prints it unescaped. It ends lines,
// erases screens, in seven bits and in eight, sets titles, reverses the reading order,
// and imitates another column and a log line.
const hostile = "x\r\nlevel=ERROR msg=forged\n{\"verb\":\"break\"}\x1b[2J\x1b]0;owned\x07\u009b2J\u202e\u2028\u00a0\x7f<script>"

// obeyed finds what a terminal would obey in what was printed.
func obeyed(printed string) string {
	for line := range strings.Lines(printed) {
		for _, r := range strings.TrimSuffix(line, "\n") {
			if !unicode.IsGraphic(r) && r != '\t' {
				return line
			}
		}
	}
	return ""
}

// What somebody who may hold a name chooses for its texts does nothing to the
// terminal, the log or the audit log of those who look.
func TestForeignTextIsEscapedOnTerminals(t *testing.T) {
	f := newFortress(t)
	label, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	value := base64.StdEncoding.EncodeToString([]byte(hostile))
	code, header, body := f.ask("a", http.MethodPost, "/v1/leases", `{"name":"a/1","ttl":"1h","label":`+string(label)+`,"value":"`+value+`"}`)
	if code != http.StatusOK || header.Get("X-Content-Type-Options") != "nosniff" || !strings.HasPrefix(header.Get("Content-Type"), "application/json") {
		t.Fatalf("%d %v %s", code, header, body)
	}
	var lease struct {
		FencingToken string `json:"fencing_token"`
	}
	if err := json.Unmarshal([]byte(body), &lease); err != nil {
		t.Fatal(err)
	}
	waits := f.command("run", "a/1", "--label", hostile, "--", "true")
	waits.Env = append(waits.Env, client.CAEnv+"="+f.ca, client.CredentialEnv+client.FileSuffix+"="+f.credential("a"))
	var said bytes.Buffer
	waits.Stdout, waits.Stderr = &said, &said
	if err := waits.Start(); err != nil {
		t.Fatal(err)
	}
	testwait.Until(t, bound, "somebody waits", func() bool {
		return strings.Contains(f.must(0, "root", "show", "a/1").stdout, "waiter 1")
	})
	var printed strings.Builder
	for _, args := range [][]string{
		{"ls"},
		{"ls", "--json"},
		{"show", "a/1"},
		{"show", "a/1", "--json"},
		{"leader", "a/1"},
		{"acquire", "a/1"},
		{"run", "-n", "a/1", "--", "true"},
		{"status"},
		{hostile},
		{"show", hostile},
		{"run", "--" + hostile},
		{"break", "a/1", "--token", lease.FencingToken, "--reason", hostile},
		{"show", "a/1"},
		{"break", "a/1", "--token", lease.FencingToken, "--reason", hostile, "--now"},
	} {
		r := f.as("root", args...)
		for _, text := range []string{r.stdout, r.stderr} {
			if line := obeyed(text); line != "" {
				t.Errorf("%.60q prints %q", args, line)
			}
			printed.WriteString(text)
		}
		if strings.Contains(strings.ReplaceAll(r.stdout, `"`, ""), "\nlevel=ERROR") {
			t.Errorf("%q prints a line of its own: %q", args, r.stdout)
		}
	}
	if !strings.Contains(printed.String(), "level=ERROR msg=forged") {
		t.Error("the text was never shown")
	}
	if err := waits.Wait(); err != nil {
		t.Errorf("the one that waited: %v\n%s", err, said.String())
	}
	if line := obeyed(said.String()); line != "" {
		t.Errorf("who waited was told %q", line)
	}
	f.audited(`"verb":"break"`, "forged")
	if line := obeyed(f.read(f.audit)); line != "" {
		t.Errorf("the audit log has %q", line)
	}
	for name, text := range map[string]string{"the log": f.said(), "the audit log": f.read(f.audit)} {
		for line := range strings.Lines(text) {
			if !json.Valid([]byte(line)) || strings.HasPrefix(line, `{"verb"`) {
				t.Errorf("%s has the line %q", name, line)
			}
		}
	}
	var log bytes.Buffer
	newLogger(&log, "text", "info").Info("break", "reason", hostile, "name", hostile)
	if line := obeyed(log.String()); line != "" || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("the log for people has %q", log.String())
	}
}

// word is whatever could be an id.
var word = regexp.MustCompile(`[0-9A-Za-z_-]{8,}`)

// C74: a caller without rights to a name sees all that is printed about its lease, in
// listings, status, metrics and logs. It tries each word of that as the id of a lease
// and of a session, and the real ids, too. Nothing ends, nothing is renewed, and no
// answer shows anything about the name.
func TestPrintedWordsAreNoCapabilities(t *testing.T) {
	f := newFortress(t)
	f.identity("b", "b/", "read,hold,break")
	f.reload("auth file: in force")
	code, _, body := f.ask("a", http.MethodPost, "/v1/leases", `{"name":"a/secret-name","ttl":"1h","label":"label-of-a"}`)
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	l := read[lease](t, body)
	said, end := f.under("a", "a/run", "--ttl", "1h", "--label", "label-of-run")
	testwait.Until(t, bound, "it is held", func() bool { return strings.Contains(f.as("eye", "ls").stdout, "a/run") })

	var shown strings.Builder
	for _, path := range []string{"/v1/locks", "/v1/locks?name=a/run", "/v1/status", "/metrics"} {
		_, _, text := f.ask("root", http.MethodGet, path, "")
		shown.WriteString(text)
	}
	shown.WriteString(f.must(0, "root", "show", "a/run", "--json").stdout)
	_, _, held := f.ask("a", http.MethodPost, "/v1/leases", `{"name":"a/secret-name"}`)
	f.audited(`"names":["a/run"]`, `"names":["a/secret-name"]`)
	shown.WriteString(held + said.String() + f.said() + f.read(f.audit))
	for _, id := range []string{l.Lease, l.Session} {
		if strings.Contains(shown.String(), id) {
			t.Errorf("the id %.4s… is printed", id)
		}
	}
	words := map[string]bool{l.Lease: true, l.Session: true}
	for _, w := range word.FindAllString(shown.String(), -1) {
		words[w] = true
	}
	if len(words) < 30 {
		t.Fatalf("only %d words are printed", len(words))
	}
	for w := range words {
		for _, who := range []string{"b", "a"} {
			if who == "a" && (w == l.Lease || w == l.Session) {
				continue
			}
			for _, r := range [][2]string{
				{http.MethodPost, "/v1/leases/" + w + "/renew"},
				{http.MethodDelete, "/v1/leases/" + w},
				{http.MethodPost, "/v1/sessions/" + w + "/renew"},
				{http.MethodDelete, "/v1/sessions/" + w},
			} {
				code, _, body := f.ask(who, r[0], r[1], "")
				if code != http.StatusNotFound && code != http.StatusBadRequest || strings.Contains(body, "secret-name") || strings.Contains(body, "label-of") {
					t.Errorf("%s %s as %s: %d %s", r[0], r[1], who, code, body)
				}
			}
		}
	}
	for _, r := range [][3]string{
		{http.MethodPost, "/v1/break", `{"name":"a/secret-name","fencing_token":"` + l.FencingToken + `","reason":"r","now":true}`},
		{http.MethodGet, "/v1/locks?name=a/secret-name", ""},
		{http.MethodPost, "/v1/leases", `{"name":"b/1","request_id":"r","session":"` + l.Session + `"}`},
	} {
		code, _, body := f.ask("b", r[0], r[1], r[2])
		if code != http.StatusForbidden && code != http.StatusNotFound || strings.Contains(body, "label-of") {
			t.Errorf("%s %s: %d %s", r[0], r[1], code, body)
		}
	}
	if code, _, body := f.ask("b", http.MethodGet, "/v1/locks", ""); code != http.StatusForbidden && strings.Contains(body, "a/") {
		t.Errorf("a listing for who may read b/ alone: %d %s", code, body)
	}
	if now := read[lock](t, f.must(0, "eye", "show", "a/secret-name", "--json").stdout); len(now.Holders) != 1 || now.Holders[0].FencingToken != l.FencingToken {
		t.Errorf("afterwards it is %+v", now)
	}
	if code := end(); code != 0 {
		t.Errorf("the run ended with %d: %s", code, said.String())
	}
}
