package tidy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

var (
	metricRow  = regexp.MustCompile("(?m)^\\| `(pawl_[a-z_]+)` \\| (gauge|counter|histogram) \\|")
	alertRow   = regexp.MustCompile("(?m)^\\| `(Pawl[A-Za-z]+)` \\| `([^`|]+)` \\| ([0-9]+[smh]) \\| [^|]+ \\|$")
	alertRule  = regexp.MustCompile(`(?m)^ {6}- alert: (\S+)\n {8}expr: (.+)\n {8}for: (\S+)$`)
	ourMetric  = regexp.MustCompile(`\bpawl_[a-z0-9_]+`)
	howItMoves = regexp.MustCompile(`\b(?:rate|irate|increase)\((pawl_[a-z0-9_]+)`)
	ofAPart    = regexp.MustCompile(`_(?:bucket|sum|count)$`)
)

// metricKinds are the metrics of docs/metrics.md, which a test of the server
// holds to what it shows, and their kinds.
func metricKinds(doc string) map[string]string {
	kinds := map[string]string{}
	for _, m := range metricRow.FindAllStringSubmatch(doc, -1) {
		kinds[m[1]] = m[2]
	}
	return kinds
}

// misasked says what is wrong with an expression for Prometheus: an unknown metric, a
// metric used as if it were of another kind, or no metric at all. Of metrics that are
// not ours it only knows `up`.
func misasked(expr string, kinds map[string]string) (wrong []string) {
	names := ourMetric.FindAllString(expr, -1)
	if len(names) == 0 && !strings.HasPrefix(expr, "up{") {
		wrong = append(wrong, fmt.Sprintf("%s names no metric of ours", expr))
	}
	var moving []string
	for _, m := range howItMoves.FindAllStringSubmatch(expr, -1) {
		moving = append(moving, m[1])
	}
	for _, name := range names {
		part := ofAPart.FindString(name)
		kind, whole := kinds[name], true
		if kind == "" && part != "" {
			kind, whole = kinds[strings.TrimSuffix(name, part)], false
		}
		grows := kind == "counter" || kind == "histogram"
		switch {
		case kind == "" || !whole && kind != "histogram":
			wrong = append(wrong, name+" is no metric of docs/metrics.md")
		case whole && kind == "histogram":
			wrong = append(wrong, name+" is a histogram; it has _bucket, _sum and _count")
		case grows != slices.Contains(moving, name):
			wrong = append(wrong, fmt.Sprintf("%s is a %s, which this does not ask for: %s", name, kind, expr))
		}
	}
	return wrong
}

// alerts are rows of a table, or rules of a file: name, expression, duration.
func alerts(of *regexp.Regexp, text string) (all []string) {
	for _, m := range of.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1]+": "+m[2]+" for "+m[3])
	}
	return all
}
