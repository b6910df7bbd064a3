package tidy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The alerts of docs/metrics.md are those of the file, and ask for what is there.
func TestAlerts(t *testing.T) {
	tree := load(t)
	doc, file := read(t, tree, "docs/metrics.md"), read(t, tree, "deploy/pawl-alerts.yml")
	said, ruled := alerts(alertRow, doc), alerts(alertRule, file)
	if n := strings.Count(file, "alert:"); len(ruled) == 0 || len(ruled) != n {
		t.Fatalf("%d of %d alerts are written with expr and for below them", len(ruled), n)
	}
	if !slices.Equal(said, ruled) {
		t.Errorf("docs/metrics.md says\n%s\ndeploy/pawl-alerts.yml says\n%s", strings.Join(said, "\n"), strings.Join(ruled, "\n"))
	}
	kinds := metricKinds(doc)
	for _, m := range alertRule.FindAllStringSubmatch(file, -1) {
		for _, wrong := range misasked(m[2], kinds) {
			t.Errorf("%s: %s", m[1], wrong)
		}
	}
}

// The dashboard asks for what is there, by the data source that is chosen.
func TestDashboard(t *testing.T) {
	tree := load(t)
	kinds := metricKinds(read(t, tree, "docs/metrics.md"))
	type panel struct {
		ID      int
		Title   string
		Type    string
		GridPos struct{ H, W, X, Y int }
		Source  struct{ UID string } `json:"datasource"`
		Targets []struct{ Expr, RefID string }
	}
	var board struct {
		UID, Title string
		Panels     []panel
	}
	if err := json.Unmarshal([]byte(read(t, tree, "deploy/pawl-dashboard.json")), &board); err != nil {
		t.Fatal(err)
	}
	if board.UID == "" || len(board.Panels) == 0 {
		t.Fatalf("it is %q with %d panels", board.UID, len(board.Panels))
	}
	ids, room := map[int]string{}, map[[2]int]string{}
	for _, p := range board.Panels {
		if p.Title == "" || ids[p.ID] != "" {
			t.Errorf("panel %d is %q, and %q", p.ID, p.Title, ids[p.ID])
		}
		ids[p.ID] = p.Title
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if room[at] != "" || at[0] >= 24 {
					t.Fatalf("%q lies over %q, or beyond the edge, at %v", p.Title, room[at], at)
				}
				room[at] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Source.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%q asks %q %d times", p.Title, p.Source.UID, len(p.Targets))
		}
		for _, target := range p.Targets {
			for _, wrong := range misasked(target.Expr, kinds) {
				t.Errorf("%q: %s", p.Title, wrong)
			}
		}
	}
}

func TestMisaskedCatchesPlantedErrors(t *testing.T) {
	kinds := map[string]string{"pawl_active": "gauge", "pawl_tenures_total": "counter", "pawl_wait_seconds": "histogram"}
	for expr, says := range map[string]string{
		"sum(pawl_active) != 1":                                   "",
		`up{job="pawl"} == 0`:                                     "",
		"increase(pawl_tenures_total[1h]) > 0":                    "",
		"sum by (le) (rate(pawl_wait_seconds_bucket[5m]))":        "",
		"rate(pawl_wait_seconds_sum[5m])/pawl_active":             "",
		"pawl_activ > 0":                                          "pawl_activ is no metric",
		"pawl_active_bucket > 0":                                  "pawl_active_bucket is no metric",
		"rate(pawl_tenures_total_count[5m])":                      "pawl_tenures_total_count is no metric",
		"rate(pawl_wait_seconds[5m])":                             "is a histogram",
		"pawl_tenures_total > 0":                                  "is a counter",
		"increase(pawl_active[5m]) > 0":                           "is a gauge",
		"pawl_wait_seconds_count > 0":                             "is a histogram",
		"upp > 0":                                                 "names no metric",
		"rate(pawl_tenures_total[5m]) > 0 and pawl_tenures > 0.5": "pawl_tenures is no metric",
	} {
		wrong := misasked(expr, kinds)
		if says == "" && len(wrong) > 0 || says != "" && (len(wrong) != 1 || !strings.Contains(wrong[0], says)) {
			t.Errorf("%s: %q; expected %q", expr, wrong, says)
		}
	}
}

// The image is built with the Go that the modules ask for.
func TestImageUsesOurGoVersion(t *testing.T) {
	tree := load(t)
	asked := regexp.MustCompile(`(?m)^go ([0-9]+\.[0-9]+)\.`).FindStringSubmatch(read(t, tree, "go.work"))
	image := regexp.MustCompile(`(?m)^ARG GO=([0-9]+\.[0-9]+)\.[0-9]+$`).FindStringSubmatch(read(t, tree, "deploy/Containerfile"))
	if asked == nil || image == nil || asked[1] != image[1] {
		t.Errorf("go.work asks for Go %v, the image is built with %v", asked, image)
	}
}
