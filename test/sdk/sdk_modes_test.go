package sdk

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/hook"
	"github.com/pawlproject/pawl/internal/store/memstore"
	"github.com/pawlproject/pawl/pawltest"
)

// The active server dies under readers, slots, a lease of several names and a
// leader: at the other one all of them are held as they were, the observer is
// told nothing, and learns of the next leader from there.
func TestModesOutliveATakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pair{listeners: map[string]*bufconn.Listener{}}
		disk := memstore.NewDisk()
		first, crash := p.start(t, disk, "first", 1)
		<-first.Ready()
		second, _ := p.start(t, disk, "second", 2)
		time.Sleep(activeTTL)

		ctx := hook.With(t.Context(), hook.Parts{Clock: clock.Bubble(), Dial: p.dial})
		dial := func() *pawl.Client {
			c, err := pawl.Dial(ctx, []string{"first", "second"}, pawl.Options{TTL: 5 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		a, b := dial(), dial()
		take := func(c *pawl.Client, name string, options ...pawl.AcquireOption) *pawl.Lease {
			t.Helper()
			l, err := c.Acquire(ctx, name, options...)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		reader := take(a, "shared", pawl.Shared())
		held := []*pawl.Lease{
			reader, take(b, "shared", pawl.Shared()),
			take(a, "slots", pawl.Slots(2)), take(b, "slots", pawl.Slots(2)),
			take(a, "m", pawl.Names("n")),
		}
		leads, err := a.Campaign(ctx, "leader", []byte("one"))
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var seen []string
		go func() {
			for l := range b.Observe(ctx, "leader") {
				mu.Lock()
				seen = append(seen, string(l.Value))
				mu.Unlock()
			}
		}()
		candidate := make(chan *pawl.Lease, 1)
		go func() {
			l, err := b.Campaign(ctx, "leader", []byte("two"))
			if err != nil {
				t.Error(err)
			}
			candidate <- l
		}()
		synctest.Wait()
		if err := held[0].Release(ctx); err != nil {
			t.Fatal(err)
		}
		crash()
		<-second.Ready()
		time.Sleep(time.Second)

		for _, l := range append(held[1:], leads) {
			if err := l.Check(ctx); err != nil {
				t.Errorf("%q after the take-over: %v", l.Names(), err)
			}
		}
		// The run of readers is unbroken, though the one who began it has gone.
		if l := take(a, "shared", pawl.Shared()); l.Fence().Token != reader.Token() {
			t.Errorf("a new reader has fence %v, the run's is %d", l.Fence(), reader.Token())
		}
		if _, err := a.TryAcquire(ctx, "slots", pawl.Slots(2)); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("a third slot: %v", err)
		}
		if _, err := b.TryAcquire(ctx, "n"); !errors.Is(err, pawl.ErrHeld) {
			t.Errorf("one of two names: %v", err)
		}
		if err := leads.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if next := <-candidate; next.Token() <= leads.Token() {
			t.Errorf("term %d after %d", next.Token(), leads.Token())
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(seen, []string{"one", "two"}) {
			t.Errorf("observed %q", seen)
		}
	})
}

// Arguments out of bounds are refused by the SDK, in the words of the server.
func TestArgumentsOutOfBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := pawltest.New(t).Dial(t, pawl.Options{})
		many := make([]string, bounds.NamesMax)
		for i := range many {
			many[i] = fmt.Sprint("n", i)
		}
		value := make([]byte, bounds.ValueMax+1)
		long := strings.Repeat("n", bounds.NameMax+1)
		for _, x := range []struct {
			server error
			option pawl.AcquireOption
		}{
			{bounds.ValidSlots(0), pawl.Slots(0)},
			{bounds.ValidSlots(bounds.SlotsMax + 1), pawl.Slots(bounds.SlotsMax + 1)},
			{bounds.ValidLockDelay(-1), pawl.LockDelay(-1)},
			{bounds.ValidLockDelay(bounds.LockDelayMax + 1), pawl.LockDelay(bounds.LockDelayMax + 1)},
			{bounds.ValidValue(value), pawl.Value(value)},
			{bounds.ValidName(long), pawl.Names(long)},
			{bounds.ValidName("\xff"), pawl.Names("\xff")},
			{bounds.ValidName("a\nb"), pawl.Names("a\nb")},
			{bounds.ValidName(""), pawl.Names("")},
			{bounds.ValidLabel(long), pawl.Label(long)},
			{fmt.Errorf("%d names were given; 1 to %d were expected", len(many)+1, len(many)), pawl.Names(many...)},
		} {
			_, err := c.TryAcquire(t.Context(), "x", x.option)
			if !errors.Is(err, pawl.ErrInvalid) || !strings.HasSuffix(err.Error(), x.server.Error()) {
				t.Errorf("%v; the server says: %v", err, x.server)
			}
		}
		// A name that cannot be observed would end the stream.
		for _, name := range []string{"", long, "\xff", "a\nb", "a\u0080"} {
			for _, err := range c.Observe(t.Context(), name) {
				if !errors.Is(err, pawl.ErrInvalid) || !strings.HasSuffix(err.Error(), bounds.ValidName(name).Error()) {
					t.Errorf("%v; the server says: %v", err, bounds.ValidName(name))
				}
			}
		}
		for _, name := range []string{strings.Repeat("n", bounds.NameMax), "a b", "\u00a0\u2028"} {
			for l, err := range c.Observe(t.Context(), name) {
				if err != nil || l.Token != 0 {
					t.Errorf("observe %q: %v", name, err)
				}
				break
			}
		}
	})
}
