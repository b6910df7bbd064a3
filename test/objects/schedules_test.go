//go:build unix

package objects

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/objguard"
	"github.com/pawlproject/pawl/guard/objguard/buckettest"
	"github.com/pawlproject/pawl/guard/objguard/s3bucket"
)

// schedulesEnv is how many schedules are run of each kind; schedulesDefault when it is
// not set.
const (
	schedulesEnv     = "PAWL_SCHEDULES"
	schedulesDefault = 500
	// workers run schedules at the same time, each on resources of its own.
	workers = 24
)

// TestLossySchedules runs holders on a real server behind a relay that loses, delays and
// repeats their writes, and asks whether anything was accepted that is stale, or told
// that is not true.
func TestLossySchedules(t *testing.T) {
	n := schedulesDefault
	if text := os.Getenv(schedulesEnv); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("%s is %q, expected a number", schedulesEnv, text)
		}
	}
	for kind := range buckettest.Lists(objguard.Guard{}, nil) {
		t.Run(kind, func(t *testing.T) { lossy(t, started(t, versity), kind, n) })
	}
}

func lossy(t *testing.T, s *server, kind string, n int) {
	over := connections()
	defer over.CloseIdleConnections()
	name := fmt.Sprintf("bucket-%d", s.bucket.Add(1))
	if _, err := s.client(over).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	var next atomic.Int64
	var mu sync.Mutex
	outcomes := map[string]int{}
	var wg sync.WaitGroup
	for range workers {
		r := &relay{over: over}
		b := s3bucket.New(s.client(r), name)
		wg.Go(func() {
			for {
				seed := next.Add(1)
				if seed > int64(n) || t.Failed() || t.Context().Err() != nil {
					return
				}
				p := buckettest.Play(t.Context(), b, kind, r, kind, fmt.Sprintf("resource %d", seed), random(uint64(seed)), 2)
				if err := p.Judge(); err != nil {
					t.Errorf("seed %d, schedule %v: %v", seed, random(uint64(seed)), err)
					return
				}
				mu.Lock()
				for _, err := range p.Told {
					outcomes[outcome(err)]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d schedules, writes: %v", n, outcomes)
	for _, o := range []string{"done", "stale"} {
		if outcomes[o] == 0 {
			t.Errorf("no write was %s: %v", o, outcomes)
		}
	}
}

// random is the schedule of a seed. Many writes at once are rare: they take long.
func random(seed uint64) buckettest.Schedule {
	rnd := rand.New(rand.NewPCG(seed, 7))
	s := make(buckettest.Schedule, 6)
	for i := range s {
		s[i] = buckettest.Fate(rnd.IntN(int(buckettest.Happenings)))
		if s[i] == buckettest.ManyWrite && rnd.IntN(20) > 0 {
			s[i] = buckettest.PeerWrites
		}
	}
	return s
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, guard.ErrStale):
		return "stale"
	case errors.Is(err, guard.ErrUnknown):
		return "unknown"
	}
	return "failed"
}
