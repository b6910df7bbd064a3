package faulty_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/faulty"
	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

func put(key string) kvlog.Txn {
	return kvlog.Txn{What: kvlog.What(key), Then: []kvlog.Op{{Kind: kvlog.OpPut, Key: key, Value: []byte{1}}}}
}

func TestFates(t *testing.T) {
	disk, journal := memstore.NewDisk(), &faulty.Journal{}
	link := faulty.NewLink(disk, clock.Bubble(), journal)
	refusal := errors.New("no")
	link.Plan(func(t kvlog.Txn) faulty.Fault {
		switch t.What {
		case "mute":
			return faulty.Fault{LoseAnswer: true}
		case "refused":
			return faulty.Fault{Refuse: refusal}
		}
		return faulty.Fault{}
	})
	for _, c := range []struct {
		key    string
		want   error
		landed bool
	}{{"good", nil, true}, {"mute", faulty.ErrLost, true}, {"refused", refusal, false}} {
		if _, err := link.Txn(t.Context(), put(c.key)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.key, err, c.want)
		}
		if got := disk.Holds(c.key) != nil; got != c.landed {
			t.Errorf("%s landed: %v, want %v", c.key, got, c.landed)
		}
	}
	link.Plan(nil)
	if _, err := link.Txn(t.Context(), put("mute")); err != nil {
		t.Errorf("without a plan: %v", err)
	}
	var sent []string
	for i := range journal.Len() {
		sent = append(sent, string(journal.At(i).What))
	}
	if want := []string{"good", "mute", "refused", "mute"}; !slices.Equal(sent, want) {
		t.Errorf("sent %q, want %q", sent, want)
	}
}

func TestDelayReorders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		link := faulty.NewLink(disk, clock.Bubble(), nil)
		link.Plan(func(t kvlog.Txn) faulty.Fault {
			return faulty.Fault{Delay: map[kvlog.What]time.Duration{"a": 2 * time.Second, "b": time.Second}[t.What]}
		})
		revs := map[string]int64{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, key := range []string{"a", "b", "c"} {
			wg.Go(func() {
				r, err := link.Txn(t.Context(), put(key))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				revs[key] = r.Rev
			})
		}
		wg.Wait()
		if revs["c"] >= revs["b"] || revs["b"] >= revs["a"] {
			t.Errorf("arrived in the order of %v", revs)
		}
	})
}

func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		link := faulty.NewLink(disk, clock.Bubble(), nil)
		link.Stall()
		link.Stall()
		done := make(chan error, 4)
		go func() { _, err := link.Txn(t.Context(), put("held")); done <- err }()
		go func() { _, err := link.Range(t.Context(), kvlog.Query{From: "a", To: "z", Limit: 1}); done <- err }()
		go func() { done <- link.Compact(t.Context(), 1) }()
		go func() { _, err := link.Usage(t.Context()); done <- err }()
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := link.Txn(brief, put("given up")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a held call whose context ends: %v", err)
		}
		synctest.Wait()
		if len(done) != 0 || disk.Holds("held") != nil {
			t.Error("something got through")
		}
		link.Resume()
		link.Resume()
		for range 4 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if disk.Holds("held") == nil || disk.Holds("given up") != nil {
			t.Error("the wrong one landed")
		}
	})
}

func TestCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := faulty.NewLink(memstore.NewDisk(), clock.Bubble(), nil)
		link.Stall()
		held := make(chan error)
		go func() { _, err := link.Txn(t.Context(), put("held")); held <- err }()
		synctest.Wait()
		link.Crash()
		if err := <-held; !errors.Is(err, faulty.ErrCrashed) {
			t.Errorf("held: %v", err)
		}
		link.Resume()
		_, txn := link.Txn(t.Context(), put("a"))
		_, page := link.Range(t.Context(), kvlog.Query{})
		_, usage := link.Usage(t.Context())
		for _, err := range []error{txn, page, usage, link.Compact(t.Context(), 1)} {
			if !errors.Is(err, faulty.ErrCrashed) {
				t.Errorf("after the crash: %v", err)
			}
		}
	})
}
