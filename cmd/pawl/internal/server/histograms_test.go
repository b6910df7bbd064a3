package server

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawlproject/pawl/internal/cell"
)

// Each is shown with all its buckets and in seconds.
func TestHistograms(t *testing.T) {
	r := prometheus.NewRegistry()
	var stats cell.Stats
	for _, h := range histograms() {
		r.MustRegister(shown{h, &stats})
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, name := range []string{"pawl_acquire_wait_seconds", "pawl_log_append_seconds", "pawl_store_confirm_seconds"} {
		want := []string{name + "_count 0\n", name + "_sum 0\n", name + `_bucket{le="+Inf"} 0` + "\n"}
		for _, b := range cell.Bounds {
			want = append(want, fmt.Sprintf("%s_bucket{le=\"%v\"} 0\n", name, b.Seconds()))
		}
		for _, line := range want {
			if !strings.Contains(text, line) {
				t.Errorf("%q is not in\n%s", line, text)
			}
		}
	}
}

// shown is a collector of one histogram.
type shown struct {
	h     histogram
	stats *cell.Stats
}

func (s shown) Describe(ch chan<- *prometheus.Desc) { ch <- s.h.desc }

func (s shown) Collect(ch chan<- prometheus.Metric) { ch <- s.h.metric(s.stats) }
