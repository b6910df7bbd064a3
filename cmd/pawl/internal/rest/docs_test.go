package rest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/rest"
)

func httpPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// docs/http.md lists the requests that there are.
func TestEveryRequestIsDocumented(t *testing.T) {
	var documented, there []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z]+ /v1/[^`]*)` \\|").FindAllStringSubmatch(httpPage(t), -1) {
		documented = append(documented, m[1])
	}
	c := serve(t)
	for path, methods := range c.want(200, "GET", "/openapi.json", "").body["paths"].(map[string]any) {
		for method := range methods.(map[string]any) {
			there = append(there, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(documented)
	slices.Sort(there)
	if !slices.Equal(documented, there) {
		t.Errorf("documented are\n%q, there are\n%q", documented, there)
	}
}

func TestEveryReasonIsDocumented(t *testing.T) {
	documented := map[string]int{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\d+) \\|").FindAllStringSubmatch(httpPage(t), -1) {
		documented[m[1]], _ = strconv.Atoi(m[2])
	}
	if !maps.Equal(documented, rest.Reasons()) {
		t.Errorf("documented are\n%v, there are\n%v", documented, rest.Reasons())
	}
}

// The examples of docs/http.md, one after the other: every answer has the status
// and the keys that are shown, no more and no less.
func TestDocumentedExamples(t *testing.T) {
	m := regexp.MustCompile("(?s)<!-- test: http -->\n```\n(.*?)```").FindStringSubmatch(httpPage(t))
	if m == nil {
		t.Fatal("docs/http.md has no examples")
	}
	c := serve(t)
	known := map[string]string{}
	for _, example := range strings.Split(strings.TrimSpace(m[1]), "\n\n") {
		request, shown, _ := strings.Cut(example, "\n")
		request = regexp.MustCompile(`\$([a-z_]+)`).ReplaceAllStringFunc(request, func(s string) string { return known[s[1:]] })
		parts := strings.SplitN(request, " ", 3)
		body := ""
		if len(parts) == 3 {
			body = parts[2]
		}
		status, answer, _ := strings.Cut(shown, " ")
		code, err := strconv.Atoi(status)
		if err != nil {
			t.Fatalf("%q shows no status", example)
		}
		got := c.want(code, parts[0], parts[1], body)
		var want map[string]any
		if err := json.Unmarshal([]byte(strings.ReplaceAll(answer, "[…]", "[]")), &want); err != nil {
			t.Fatalf("%q shows no JSON: %v", example, err)
		}
		sameKeys(t, request, want, got.body)
		for k, v := range got.body {
			if s, ok := v.(string); ok && code == 200 {
				known[k] = s
			}
		}
	}
}

// sameKeys compares what has keys; of values only those that are always so.
func sameKeys(t *testing.T, where string, want, got any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		if a, b := slices.Sorted(maps.Keys(w)), slices.Sorted(maps.Keys(g)); !slices.Equal(a, b) {
			t.Errorf("%s: %q are shown, and answered are %q", where, a, b)
		}
		for k := range w {
			sameKeys(t, where+": "+k, w[k], g[k])
		}
	case []any:
		g, _ := got.([]any)
		for i := range w {
			if i < len(g) {
				sameKeys(t, fmt.Sprint(where, i), w[i], g[i])
			} else {
				t.Errorf("%s: %v is shown, and not answered", where, w[i])
			}
		}
	case string:
		if _, ok := got.(string); !ok || w != "…" && w != got && !strings.HasSuffix(where, "expires_in") && !strings.HasSuffix(where, "waited") {
			t.Errorf("%s: %q is shown, and answered is %v", where, w, got)
		}
	default:
		if want != got {
			t.Errorf("%s: %v is shown, and answered is %v", where, want, got)
		}
	}
}
