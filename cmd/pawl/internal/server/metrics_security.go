package server

import "github.com/prometheus/client_golang/prometheus"

// securityMetrics counts admitted callers and errors of the files. Nothing
// in it names an identity.
type securityMetrics struct {
	security *security
	of       []securityMetric
}

type securityMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*security) float64
}

func newSecurityMetrics(s *security) *securityMetrics {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc("pawl_"+name, help, nil, nil) }
	m := &securityMetrics{security: s, of: []securityMetric{
		{desc("streams", "Streams of clients that are open."), prometheus.GaugeValue, func(s *security) float64 { return float64(s.gate.Streams()) }},
		{desc("requests_denied_total", "Requests refused for want of a right."), prometheus.CounterValue, func(s *security) float64 { return float64(s.gate.Denied.Load()) }},
		{desc("requests_unauthenticated_total", "Requests of callers who did not prove who they are."), prometheus.CounterValue, func(s *security) float64 { return float64(s.gate.Unauthenticated.Load()) }},
		{desc("auth_file_failures_total", "Auth files that could not be used; the one before stayed in force."), prometheus.CounterValue, func(s *security) float64 { return float64(s.failed.Load()) }},
	}}
	if s.certs != nil {
		m.of = append(m.of,
			securityMetric{desc("tls_failures_total", "Certificates that could not be used; those before stayed in force."), prometheus.CounterValue, func(s *security) float64 { return float64(s.certs.failed.Load()) }},
			securityMetric{desc("tls_not_after_seconds", "When the server's certificate ends, in seconds of Unix time."), prometheus.GaugeValue, func(s *security) float64 { return s.certs.notAfter() }},
		)
	}
	if s.audit != nil {
		m.of = append(m.of,
			securityMetric{desc("audit_lost_total", "Lines of the audit log that were lost."), prometheus.CounterValue, func(s *security) float64 { return float64(s.audit.Lost()) }},
			securityMetric{desc("audit_failing", "1 while the audit log cannot be written."), prometheus.GaugeValue, func(s *security) float64 {
				if s.audit.Failing() {
					return 1
				}
				return 0
			}},
		)
	}
	return m
}

// Describe implements prometheus.Collector.
func (m *securityMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, x := range m.of {
		ch <- x.desc
	}
}

// Collect implements prometheus.Collector.
func (m *securityMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, x := range m.of {
		ch <- prometheus.MustNewConstMetric(x.desc, x.kind, x.value(m.security))
	}
}
