//go:build unix

package objects

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
)

// BenchmarkUpdateBesidePut has one writer do in turn an Update whose version is known, a
// bare conditional PUT of as many bytes, and an append, so that all of them meet the same
// machine, and reports the median of each.
func BenchmarkUpdateBesidePut(b *testing.B) {
	for name, start := range good {
		b.Run(name, func(b *testing.B) {
			over := connections()
			defer over.CloseIdleConnections()
			bucket := started(b, start).fresh(b, over)
			g, f := objguard.New(bucket, ""), guard.Fence{Resource: "key", Token: 7, Cell: "test-00000000000000aa"}
			p, l := g.Pointer("key"), g.Log("key")
			body := bytes.Repeat([]byte("x"), 1000)
			payload := bytes.Clone(body)
			tag, err := bucket.Put(b.Context(), "bare", bytes.NewReader(body), int64(len(body)), objguard.IfAbsent())
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			kinds := []struct {
				name string
				do   func() error
			}{
				{"put", func() (err error) {
					n++
					body[0], body[1] = byte(n), byte(n>>8) // another body has another ETag
					tag, err = bucket.Put(b.Context(), "bare", bytes.NewReader(body), int64(len(body)), objguard.IfETag(tag))
					return err
				}},
				{"update", func() error {
					return p.Update(b.Context(), f, func([]byte) ([]byte, error) { return payload, nil })
				}},
				{"append", func() error { _, err := l.Append(b.Context(), f, payload); return err }},
			}
			took := make([][]time.Duration, len(kinds))
			for b.Loop() {
				for i, k := range kinds {
					begun := time.Now()
					if err := k.do(); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(begun))
				}
			}
			median := func(i int) float64 {
				slices.Sort(took[i])
				return float64(took[i][len(took[i])/2]) / float64(time.Microsecond)
			}
			b.ReportMetric(0, "ns/op")
			for i, k := range kinds {
				b.ReportMetric(median(i), k.name+"-µs")
			}
			b.ReportMetric(median(0)/median(1), "put/update")
		})
	}
}
