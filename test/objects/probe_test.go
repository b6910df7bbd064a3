//go:build unix

package objects

import (
	"testing"

	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/probe"
)

// Each server is told from the others by what it does not keep.
func TestProbe(t *testing.T) {
	oldVersity := func() (*server, error) { return startVersity("1.7") }
	for _, c := range []struct {
		name  string
		start func() (*server, error)
		need  []string
		safe  bool
		// broken are properties that must be told, faults some of which must be.
		broken, faults []string
	}{
		{"versitygw", versity, nil, true, []string{probe.OtherTag}, nil},
		{"versitygw with multipart uploads", versity, []string{probe.Parts}, true, []string{probe.OtherTag}, nil},
		{"versitygw that checks, then writes", oldVersity, nil, false, []string{probe.OtherTag}, []string{probe.Created, probe.Replaced}},
		{"gofakes3", fake, nil, true, []string{probe.OtherTag, probe.Parts, probe.Deletes}, nil},
		{"gofakes3 with multipart uploads", fake, []string{probe.Parts}, false, []string{probe.Parts, probe.Deletes}, []string{probe.Parts}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := started(t, c.start)
			over := connections()
			defer over.CloseIdleConnections()
			b := s.fresh(t, over)
			report, err := probe.Run(t.Context(), []objguard.Bucket{b}, "probe", probe.Options{Need: c.need})
			if err != nil {
				t.Fatal(err)
			}
			verdicts := map[string]probe.Verdict{}
			for _, r := range report {
				t.Logf("%-9s %s %s", r.Verdict, r.Property, r.Detail)
				verdicts[r.Property] = r.Verdict
			}
			if report.Safe() != c.safe {
				t.Errorf("safe: %t, faults %+v", report.Safe(), report.Faults())
			}
			for _, name := range c.broken {
				if verdicts[name] != probe.Broken {
					t.Errorf("%q is %q, expected %q", name, verdicts[name], probe.Broken)
				}
			}
			found := len(c.faults) == 0
			for _, name := range c.faults {
				found = found || verdicts[name] == probe.Broken
			}
			if !found {
				t.Errorf("none of %q was seen", c.faults)
			}
			if keys, _, err := b.List(t.Context(), "", ""); err != nil || len(keys) > 0 {
				t.Errorf("the probe left %q (%v)", keys, err)
			}
		})
	}
}
