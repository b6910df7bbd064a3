package authfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/clock"
)

var hash = access.DigestOf(strings.Repeat("x", 40)).String()

const good = `
identities:
  - name: billing
    credentials: ["HASH"]
    certificates: ["dns:billing.example"]
    rights:
      - prefix: billing/
        allow: [read, hold]
      - {prefix: "", allow: [read]}
    limits: {streams: 100, acquires: 1000}
  - name: idle
`

func TestParseAuthFile(t *testing.T) {
	p, err := Parse([]byte(strings.ReplaceAll(good, "HASH", hash)))
	if err != nil {
		t.Fatal(err)
	}
	i := p.Identity("billing")
	if p.Len() != 2 || !i.Allow(access.Hold, "billing/1") || i.Allow(access.Hold, "x") || !i.Allow(access.Read, "x") || i.Allow(access.Break, "billing/1") ||
		i.Limits() != (access.Limits{Streams: 100, Acquires: 1000}) || p.Identity("idle").Anywhere(access.Read) {
		t.Errorf("%+v", i)
	}
	// JSON is YAML.
	if _, err := Parse([]byte(`{"identities":[{"name":"a","rights":[{"prefix":"","allow":["admin"]}]}]}`)); err != nil {
		t.Error(err)
	}
	if p, err := Parse([]byte("identities: []")); err != nil || p.Len() != 0 {
		t.Errorf("nobody: %v", err)
	}
}

func TestInvalidAuthFileIsRefused(t *testing.T) {
	for text, expected := range map[string]string{
		"":                                       "empty",
		"a: [":                                   "not YAML",
		"- a":                                    `line 1: the file is no mapping: "identities:" is missing at its top`,
		"x":                                      "line 1: the file is no mapping",
		"{}":                                     `"identities:" is missing at its top`,
		"identities: x":                          "line 1: identities is no list",
		"identities: []\nidentities: []":         "twice",
		"identities: []\n---\nidentities: []":    "second document",
		"identities: []\nother: 1":               `line 2: the file has the unknown key "other"`,
		"identities:\n- {}":                      "line 2: the identity has no name",
		"identities:\n- name: 7":                 "line 2: name is no text",
		"identities:\n- name: true":              "no text",
		"identities:\n- name: ''":                "line 2: the name is",
		"identities:\n- name: \"a\\x07\"":        "printable",
		"identities:\n- name: a\n- name: a":      `line 3: the name "a" stands in line 2 already`,
		"identities:\n- name: a\n  name: b":      "twice",
		"identities:\n- {name: a, right: []}":    `unknown key "right"`,
		"identities:\n- {name: a, <<: {}}":       "unknown key",
		"identities: &x\n- {name: a}":            "anchor",
		"identities:\n- &x {name: a}\n- *x":      "anchor",
		"identities:\n- {name: a, rights: [{}]}": "prefix is missing",
		"identities:\n- {name: a, credentials: [pawl_secret]}":                                             "line 2: no hash",
		"identities:\n- {name: a, credentials: pawl_secret}":                                               "credentials is no list",
		"identities:\n- {name: a, credentials: ['HASH']}\n- {name: b, credentials: ['HASH']}":              "line 3: the credential stands in line 2 already",
		"identities:\n- {name: a, credentials: ['HASH', 'HASH']}":                                          "already",
		"identities:\n- {name: a, certificates: [billing]}":                                                "expected its kind",
		"identities:\n- {name: a, certificates: ['cn:x']}\n- {name: b, certificates: ['cn:x']}":            "already",
		"identities:\n- {name: a, rights: [{prefix: a}]}":                                                  "allow is missing",
		"identities:\n- {name: a, rights: [{prefix: a, allow: []}]}":                                       "allow is missing",
		"identities:\n- {name: a, rights: [{prefix: a, allow: [write]}]}":                                  `"write" is no right`,
		"identities:\n- {name: a, rights: [{prefix: a, allow: read}]}":                                     "allow is no list",
		"identities:\n- {name: a, rights: [{prefix: null, allow: [read]}]}":                                "prefix is no text",
		"identities:\n- {name: a, rights: [{allow: [read]}]}":                                              "prefix is missing",
		"identities:\n- {name: a, rights: [{prefix: \"a\\x1f\", allow: [read]}]}":                          "control character",
		"identities:\n- {name: a, rights: [{prefix: a, allow: [read, hold, break, admin, read]}]}":         "at most 4",
		"identities:\n- {name: a, limits: {streams: 0}}":                                                   "no number from 1",
		"identities:\n- {name: a, limits: {streams: 1.5}}":                                                 "no number",
		"identities:\n- {name: a, limits: {stream: 1}}":                                                    "unknown key",
		"identities:\n- name: a\n  rights:\n  - prefix: a\n    allow: [read]\n  - prefix: b\n    alow: []": "line 7",
	} {
		p, err := Parse([]byte(strings.ReplaceAll(text, "HASH", hash)))
		if err == nil || !strings.Contains(err.Error(), expected) {
			t.Errorf("%q: %v, %v; expected %q", text, p, err, expected)
		}
		if err != nil && strings.Contains(err.Error(), "pawl_secret") {
			t.Errorf("%q: the error repeats a secret: %v", text, err)
		}
	}
}

// What is added makes a file of nothing, and goes to the end of one; where that
// would be none, it says so.
func TestAddIdentity(t *testing.T) {
	entry := Line("new", access.DigestOf(strings.Repeat("y", 40)), "n/", []access.Right{access.Hold})
	full := strings.ReplaceAll(good, "HASH", hash)
	for old, n := range map[string]int{"": 1, "\n": 1, "# a comment": 1, "identities:\n": 1, "identities:": 1, full: 3, strings.TrimSpace(full): 3} {
		more, err := Add([]byte(old), entry)
		if err != nil {
			t.Errorf("to %q: %v", old, err)
			continue
		}
		p, err := Parse([]byte(old + more))
		if err != nil || p.Len() != n || !p.Identity("new").Allow(access.Hold, "n/1") {
			t.Errorf("to %q: %v", old, err)
		}
	}
	for _, old := range []string{"nonsense", "identities: []", `{"identities":[]}`, "identities:\n- name: a\n", "identities:\n  - name: new\n", full + entry} {
		if more, err := Add([]byte(old), entry); err == nil {
			t.Errorf("to %q it adds %q", old, more)
		}
	}
}

func TestAuthFileBounds(t *testing.T) {
	many := func(n int, entry string) string { return strings.TrimSuffix(strings.Repeat(entry+",", n), ",") }
	for text, ok := range map[string]bool{
		"identities: [{name: a, rights: [" + many(RightsMax, "{prefix: a, allow: [read]}") + "]}]":   true,
		"identities: [{name: a, rights: [" + many(RightsMax+1, "{prefix: a, allow: [read]}") + "]}]": false,
		"identities: [{name: " + strings.Repeat("n", NameMax) + "}]":                                 true,
		"identities: [{name: " + strings.Repeat("n", NameMax+1) + "}]":                               false,
		"identities: []" + strings.Repeat(" ", BytesMax-14):                                          true,
		"identities: []" + strings.Repeat(" ", BytesMax-13):                                          false,
		"identities: [{name: a, limits: {acquires: 1000000}}]":                                       true,
		"identities: [{name: a, limits: {acquires: 1000001}}]":                                       false,
		"identities: [" + many(IdentitiesMax+1, "{name: a}") + "]":                                   false,
	} {
		if _, err := Parse([]byte(text)); (err == nil) != ok {
			t.Errorf("%d bytes, %.60s…: %v", len(text), text, err)
		}
	}
}

// A file of the greatest size that consists of tiny values alone is refused before
// each of them takes a hundred times its room.
func TestManyTinyValuesAreRefused(t *testing.T) {
	for _, tiny := range []string{"?\n", "a,", "[],", "- ", "-\r", "- \n", "{},", ":\n", "# x\n- name: a\n"} {
		raw := []byte("identities: [" + strings.Repeat(tiny, (BytesMax-13)/len(tiny)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse(raw)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; err == nil || !strings.Contains(err.Error(), "more than 1000000") || took > 1<<20 {
			t.Errorf("%q: %d bytes were allocated, %v", tiny, took, err)
		}
	}
	// Every identity that there may be, with ten rights.
	var text strings.Builder
	text.WriteString(Head)
	for i := range IdentitiesMax {
		fmt.Fprintf(&text, "  - name: identity-%d\n    credentials: [%q]\n    rights:\n", i, access.DigestOf(fmt.Sprint(i)).String())
		for j := range 10 {
			fmt.Fprintf(&text, "    - {prefix: p-%d/%d/, allow: [read, hold]}\n", i, j)
		}
	}
	if text.Len() > BytesMax {
		t.Fatalf("%d bytes", text.Len())
	}
	if p, err := Parse([]byte(text.String())); err != nil || p.Len() != IdentitiesMax {
		t.Error(err)
	}
}

func TestFileReadableByOthersIsReported(t *testing.T) {
	users := []int{os.Getuid()}
	if os.Getuid() == 0 {
		users = append(users, 4711)
	}
	for _, user := range users {
		for mode, expected := range map[os.FileMode]bool{
			0o600: false, 0o400: false, 0o640: user != 0, 0o604: true, 0o620: true, 0o660: true, 0o644: true,
		} {
			path := filepath.Join(t.TempDir(), "auth.yaml")
			if err := os.WriteFile(path, []byte("identities: []"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.Chown(path, user, -1), os.Chmod(path, mode)); err != nil {
				t.Fatal(err)
			}
			if _, open, err := Read(path, clock.System().Wall()); err != nil || open != expected {
				t.Errorf("%v of user %d: open %t, %v", mode, user, open, err)
			}
		}
	}
	if _, _, err := Read(filepath.Join(t.TempDir(), "none"), clock.System().Wall()); err == nil {
		t.Error("a file that is not there was read")
	}
}

func TestPrintedIdentityIsParsed(t *testing.T) {
	line := Line("a b", access.DigestOf("x"), "a/\u00e9", []access.Right{access.Read, access.Admin})
	p, err := Parse([]byte("identities:\n" + line))
	if err != nil || !p.Identity("a b").Allow(access.Break, "a/\u00e9x") {
		t.Errorf("%v\n%s", err, line)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(strings.ReplaceAll(good, "HASH", hash)))
	f.Add([]byte("identities: [{name: a, rights: [{prefix: '', allow: [admin]}]}]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := Parse(raw)
		if (p == nil) == (err == nil) {
			t.Errorf("%v, %v", p, err)
		}
	})
}
