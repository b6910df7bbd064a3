//go:build unix

package objects

import (
	"testing"

	"github.com/pawlproject/pawl/guard/guardtest"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

func TestBucket(t *testing.T) {
	for name, start := range good {
		t.Run(name, func(t *testing.T) {
			s := started(t, start)
			over := connections()
			defer over.CloseIdleConnections()
			buckettest.Run(t, func(t *testing.T) objguard.Bucket { return s.fresh(t, over) })
		})
	}
}

func TestContract(t *testing.T) {
	for name, start := range good {
		for kind := range buckettest.Lists(objguard.Guard{}, nil) {
			t.Run(name+" "+kind, func(t *testing.T) {
				s := started(t, start)
				over := connections()
				defer over.CloseIdleConnections()
				guardtest.Run(t, func(t *testing.T) guardtest.Resource {
					r := &relay{over: over}
					return buckettest.Lists(objguard.New(s.fresh(t, r), "guards"), r.loseNext)[kind]
				})
			})
		}
	}
}
