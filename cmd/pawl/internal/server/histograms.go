package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawlproject/pawl/internal/cell"
)

// histogram is one of the cell's as Prometheus shows it.
type histogram struct {
	desc *prometheus.Desc
	of   func(*cell.Stats) *cell.Histogram
}

func histograms() []histogram {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("pawl_"+name, help, nil, nil)
	}
	return []histogram{
		{desc("acquire_wait_seconds", "How long granted acquires stood in queues."), func(s *cell.Stats) *cell.Histogram { return &s.Waits }},
		{desc("log_append_seconds", "How long the store took to land a batch."), func(s *cell.Stats) *cell.Histogram { return &s.Appends }},
		{desc("store_confirm_seconds", "How long the store took to confirm the tenure."), func(s *cell.Stats) *cell.Histogram { return &s.Confirmations }},
	}
}

func (h histogram) metric(s *cell.Stats) prometheus.Metric {
	n, sum, within := h.of(s).Read()
	buckets := make(map[float64]uint64, len(within))
	for i, bound := range cell.Bounds {
		buckets[bound.Seconds()] = within[i]
	}
	return prometheus.MustNewConstHistogram(h.desc, n, sum.Seconds(), buckets)
}
