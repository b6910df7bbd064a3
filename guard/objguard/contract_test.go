package objguard_test

import (
	"sync"
	"testing"

	"github.com/pawlproject/pawl/guard/guardtest"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
)

func TestMemoryIsABucket(t *testing.T) {
	buckettest.Run(t, func(*testing.T) objguard.Bucket { return &buckettest.Memory{PageMax: 3} })
}

func TestContract(t *testing.T) {
	for kind := range buckettest.Lists(objguard.Guard{}, nil) {
		t.Run(kind, func(t *testing.T) {
			guardtest.Run(t, func(*testing.T) guardtest.Resource {
				b := &buckettest.Memory{PageMax: 7}
				return buckettest.Lists(objguard.New(b, "guards"), losing(b))[kind]
			})
		})
	}
}

// losing makes the next write's answer get lost.
func losing(b *buckettest.Memory) func(bool) {
	var mu sync.Mutex
	next := buckettest.Served
	b.Set(func() buckettest.Fate {
		mu.Lock()
		defer mu.Unlock()
		fate := next
		next = buckettest.Served
		return fate
	})
	return func(landed bool) {
		mu.Lock()
		defer mu.Unlock()
		next = buckettest.Lost
		if landed {
			next = buckettest.Unanswered
		}
	}
}
