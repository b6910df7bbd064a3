package server

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/locktable"
)

// metricsHandler answers /metrics. No label is a name, a session or anything
// else that users make up, so the number of series is fixed.
func metricsHandler(c *cell.Cell, o Options, s *security) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newCellMetrics(c, o.Version),
		newSecurityMetrics(s),
	)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4, ErrorHandling: promhttp.ContinueOnError})
}

// cellMetrics reads the cell when it is asked.
type cellMetrics struct {
	cell     *cell.Cell
	version  string
	counters []counter
	gauges   []gauge
	waits    []histogram
	build    *prometheus.Desc
	drill    *prometheus.Desc
	byGrade  *prometheus.Desc
	ridden   *prometheus.Desc
}

type counter struct {
	desc *prometheus.Desc
	of   func(*cell.Stats) uint64
}

type gauge struct {
	desc *prometheus.Desc
	of   func(cell.Status) float64
}

func newCellMetrics(c *cell.Cell, version string) *cellMetrics {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("pawl_"+name, help, nil, nil)
	}
	bit := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	return &cellMetrics{
		cell: c, version: version, waits: histograms(),
		build: prometheus.NewDesc("pawl_build_info", "Always 1; the version is a label.", []string{"version"}, nil),
		drill: desc("drill_left_seconds", "How long the cell goes on answering as one that lost its quorum, for a drill; 0: none is held."),
		byGrade: prometheus.NewDesc("pawl_leases_by_grade",
			"Leases that are held, by what stands between a late holder and the resource: claimed, delayed or advisory.", []string{"grade"}, nil),
		ridden: desc("ridden_seconds_total", "How long the rides of pawl_rides_total lasted together."),
		counters: []counter{
			{desc("leases_granted_total", "Leases granted."), func(s *cell.Stats) uint64 { return s.Granted.Load() }},
			{desc("leases_released_total", "Leases released as asked."), func(s *cell.Stats) uint64 { return s.Released.Load() }},
			{desc("checks_total", "Questions whether a lease is held that were answered with yes."), func(s *cell.Stats) uint64 { return s.Checked.Load() }},
			{desc("sessions_closed_total", "Sessions closed as asked."), func(s *cell.Stats) uint64 { return s.Left.Load() }},
			{desc("renewals_total", "Renewals answered."), func(s *cell.Stats) uint64 { return s.Renewed.Load() }},
			{desc("requests_refused_total", "Requests that the cell refused; those for want of a right never reach it."), func(s *cell.Stats) uint64 { return s.Refused.Load() }},
			{desc("sessions_opened_total", "Sessions opened or attached to."), func(s *cell.Stats) uint64 { return s.Opened.Load() }},
			{desc("streams_closed_total", "Streams that were told that their session has ended or moved."), func(s *cell.Stats) uint64 { return s.Closed.Load() }},
			{desc("rides_total", "Rides through an outage that a client told of when its session returned."), func(s *cell.Stats) uint64 { return s.Rides.Load() }},
			{desc("log_batches_total", "Batches that landed in the store."), func(s *cell.Stats) uint64 { return s.Batches.Load() }},
			{desc("log_events_total", "Events in the batches that landed."), func(s *cell.Stats) uint64 { return s.Events.Load() }},
			{desc("log_bytes_total", "Bytes of the batches that landed."), func(s *cell.Stats) uint64 { return s.Bytes.Load() }},
			{desc("store_confirms_total", "Confirmations of the tenure by the store."), func(s *cell.Stats) uint64 { return s.Confirms.Load() }},
			{desc("tenures_total", "Tenures that this server began."), func(s *cell.Stats) uint64 { return s.Tenures.Load() }},
			{desc("snapshots_total", "Snapshots published."), func(s *cell.Stats) uint64 { return s.Snapshots.Load() }},
		},
		gauges: []gauge{
			{desc("active", "1 while this server is the active one."), func(s cell.Status) float64 { return bit(s.Active) }},
			{desc("epoch", "Number of the tenure that this server knows of."), func(s cell.Status) float64 { return float64(s.Epoch) }},
			{desc("sessions", "Sessions that live."), func(s cell.Status) float64 { return float64(s.Sessions) }},
			{desc("leases", "Leases that are held."), func(s cell.Status) float64 { return float64(s.Leases) }},
			{desc("riders", "Leases that may ride through an outage. Only its holder knows whether one does."), func(s cell.Status) float64 { return float64(s.Riders) }},
			{desc("names_claim_only", "Names closed to acquires that do not claim, since a rider's lease ended unreleased."), func(s cell.Status) float64 { return float64(s.ClaimOnly) }},
			{desc("waiters", "Acquires that wait for their turn."), func(s cell.Status) float64 { return float64(s.Waiters) }},
			{desc("log_batch", "Number of the last durable batch."), func(s cell.Status) float64 { return float64(s.Batch) }},
			{desc("followed_batch", "On a standby, the last batch that it has read of the active server's log; 0: none, or it is not a standby."), func(s cell.Status) float64 { return float64(s.Followed) }},
			{desc("followed_age_seconds", "On a standby, how long ago it began to read the log to its end last; 0 while followed_batch is."), func(s cell.Status) float64 { return s.Behind.Seconds() }},
			{desc("token_ahead_seconds", "How far the token counter stands ahead of the wall clock; negative: behind."), func(s cell.Status) float64 { return s.Ahead.Seconds() }},
			{desc("store_used_bytes", "Bytes that the store uses."), func(s cell.Status) float64 { return float64(s.Usage.Used) }},
			{desc("store_quota_bytes", "Bytes that the store may use; 0: unknown."), func(s cell.Status) float64 { return float64(s.Usage.Quota) }},
			{desc("disk_free_bytes", "Bytes free under the data folder; 0: unknown."), func(s cell.Status) float64 { return float64(s.Usage.Free) }},
			{desc("store_full", "1 while the store takes no writes at all: etcd's quota alarm."), func(s cell.Status) float64 { return bit(s.Usage.Full) }},
			{desc("store_history_revisions", "Revisions of its past that the store keeps; 0: unknown."), func(s cell.Status) float64 { return float64(s.Usage.History) }},
			{desc("store_warning", "1 while the store needs an operator: see status."), func(s cell.Status) float64 { return bit(s.Usage.Warning != "") }},
			{desc("store_tight", "1 while acquires are refused for want of room."), func(s cell.Status) float64 { return bit(s.Tight) }},
			{desc("store_rolled_back", "1 when the log was found to have lost acknowledged grants."), func(s cell.Status) float64 { return bit(s.RolledBack) }},
		},
	}
}

// Describe implements prometheus.Collector.
func (m *cellMetrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.build
	ch <- m.drill
	ch <- m.byGrade
	ch <- m.ridden
	for _, c := range m.counters {
		ch <- c.desc
	}
	for _, g := range m.gauges {
		ch <- g.desc
	}
	for _, h := range m.waits {
		ch <- h.desc
	}
}

// Collect implements prometheus.Collector.
func (m *cellMetrics) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(m.build, prometheus.GaugeValue, 1, m.version)
	left := m.cell.DrillLeft()
	ch <- prometheus.MustNewConstMetric(m.drill, prometheus.GaugeValue, left.Seconds())
	stats := m.cell.Stats()
	for _, c := range m.counters {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.CounterValue, float64(c.of(stats)))
	}
	ch <- prometheus.MustNewConstMetric(m.ridden, prometheus.CounterValue, time.Duration(stats.Ridden.Load()).Seconds())
	for _, h := range m.waits {
		ch <- h.metric(stats)
	}
	ctx, cancel := context.WithTimeout(context.Background(), statusMax)
	defer cancel()
	status, err := m.cell.Status(ctx)
	if err != nil || left > 0 || status.Drill > 0 {
		return // a gap tells more than an old number
	}
	for g, n := range status.ByGrade {
		ch <- prometheus.MustNewConstMetric(m.byGrade, prometheus.GaugeValue, float64(n), locktable.Grade(g).String())
	}
	for _, g := range m.gauges {
		ch <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.of(status))
	}
}

// statusMax bounds the wait for the cell while metrics are collected.
const statusMax = 2 * time.Second
