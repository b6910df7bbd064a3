package guardproxy

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawlproject/pawl/guard/httpguard"
)

// metrics are those of a gate. No name of a resource is a label.
type metrics struct {
	gate *httpguard.Gate
	all  []metric
}

type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(httpguard.Stats) float64
}

// metricsHandler answers with the metrics of a gate, and of the process.
func metricsHandler(gate *httpguard.Gate) http.Handler {
	m := &metrics{gate: gate}
	add := func(name, help string, kind prometheus.ValueType, of func(httpguard.Stats) float64) {
		m.all = append(m.all, metric{prometheus.NewDesc("pawl_guard_proxy_"+name, help, nil, nil), kind, of})
	}
	counter := func(name, help string, of func(httpguard.Stats) uint64) {
		add(name+"_total", help, prometheus.CounterValue, func(s httpguard.Stats) float64 { return float64(of(s)) })
	}
	gauge := func(name, help string, of func(httpguard.Stats) int) {
		add(name, help, prometheus.GaugeValue, func(s httpguard.Stats) float64 { return float64(of(s)) })
	}
	counter("admitted", "Requests let in under a fence.", func(s httpguard.Stats) uint64 { return s.Admitted })
	counter("passed", "Reads without a fence, which pass by the guard.", func(s httpguard.Stats) uint64 { return s.Passed })
	counter("claimed", "Claims that succeeded.", func(s httpguard.Stats) uint64 { return s.Claimed })
	counter("stale", "Requests and claims refused because the resource has seen a higher token.", func(s httpguard.Stats) uint64 { return s.Stale })
	counter("foreign", "Requests and claims refused because the resource is held to another cell.", func(s httpguard.Stats) uint64 { return s.Foreign })
	counter("missing", "Requests and claims refused because they show no fence.", func(s httpguard.Stats) uint64 { return s.Missing })
	counter("malformed", "Requests and claims refused because what they show is no fence.", func(s httpguard.Stats) uint64 { return s.Malformed })
	counter("busy", "Requests and claims that were told to come again; nothing was done.", func(s httpguard.Stats) uint64 { return s.Busy })
	counter("raised", "Marks that rose.", func(s httpguard.Stats) uint64 { return s.Raised })
	counter("drains", "Requests and claims that waited for requests under lower tokens.", func(s httpguard.Stats) uint64 { return s.Drains })
	counter("unknown", "Requests sent to the upstream that got no whole answer.", func(s httpguard.Stats) uint64 { return s.Unknown })
	counter("tainted", "How often a resource was closed to higher tokens because its upstream may still be at work.", func(s httpguard.Stats) uint64 { return s.Tainted })
	counter("state_failures", "Questions that the state file did not answer.", func(s httpguard.Stats) uint64 { return s.MarksFailed })
	gauge("in_flight", "Guarded requests at the upstream.", func(s httpguard.Stats) int { return s.InFlight })
	gauge("waiting", "Requests and claims that wait for the state file or for lower tokens.", func(s httpguard.Stats) int { return s.Waiting })
	gauge("resources", "Resources in memory.", func(s httpguard.Stats) int { return s.Resources })

	r := prometheus.NewRegistry()
	r.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	return mux
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, one := range m.all {
		ch <- one.desc
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	s := m.gate.Stats()
	for _, one := range m.all {
		ch <- prometheus.MustNewConstMetric(one.desc, one.kind, one.of(s))
	}
}
