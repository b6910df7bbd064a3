package cell_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// let is when a caller was let go, and where it was sent.
type let struct {
	link  string
	after time.Duration
}

// hold keeps a caller at a server.
func (s *server) hold(ctx context.Context, unreached string) <-chan let {
	went := make(chan let, 1)
	begun := time.Now()
	go func() {
		link := s.WaitForActive(ctx, unreached, time.Minute)
		went <- let{link, time.Since(begun)}
	}()
	return went
}

// Who found nobody at the active server waits at standbys: it is let in at once by
// the one that takes over, and the others send it there soon.
func TestStandbyWaitEndsWithTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		a.up(t)
		b, c := start(t, disk, "b", false), start(t, disk, "c", false)
		defer b.stop()
		defer c.stop()
		time.Sleep(2 * activeTTL)
		a.crash()
		atB, atC := b.hold(t.Context(), "a"), c.hold(t.Context(), "a")
		var mine, other let
		var first, second string
		select {
		case <-b.Ready():
			first, second, mine, other = "b", "c", <-atB, <-atC
		case <-c.Ready():
			first, second, mine, other = "c", "b", <-atC, <-atB
		}
		if mine.link != "" || mine.after > activeTTL+time.Second {
			t.Errorf("%s took over and let its caller go to %q after %v", first, mine.link, mine.after)
		}
		if other.link != first || other.after-mine.after > 200*time.Millisecond {
			t.Errorf("%s sent its caller to %q after %v; %s served after %v", second, other.link, other.after, first, mine.after)
		}
	})
}

// secretive does not say which server is active.
type secretive struct{ store.Store }

func (secretive) Active(context.Context) (store.Node, error) {
	return store.Node{}, errors.New("no answer")
}

// The server that takes over lets its callers in as it begins to serve, and not when
// it asks the store the next time.
func TestStandbyWaitEndsWhenServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		a.up(t)
		k := clock.Bubble()
		b := &server{store: disk.Store(memstore.Options{Clock: k, ActiveTTL: activeTTL}), end: make(chan error, 1)}
		defer b.store.Close()
		b.Cell = cell.New(cell.Options{Store: secretive{b.store}, Node: store.Node{ID: [16]byte{'b'}, Link: "b"}, Clock: k, Name: "test", ActiveTTL: activeTTL})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { b.end <- b.Run(ctx) }()
		defer func() {
			cancel()
			<-b.end
		}()
		time.Sleep(2 * activeTTL)
		a.crash()
		held := b.hold(t.Context(), "a")
		b.up(t)
		synctest.Wait()
		select {
		case got := <-held:
			if got.link != "" {
				t.Errorf("the caller is sent to %q", got.link)
			}
		default:
			t.Error("the server serves, and its caller is held")
			<-held
		}
	})
}

// modest never takes over.
type modest struct{ store.Store }

func (modest) Claim(ctx context.Context, _ store.Node, _ store.Nonce, _ func(uint64, store.Nonce) []byte) (store.Tenure, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Who was served by a server that ended its tenure goes back to it when that one has
// the next tenure, too: it need not wait until its patience is at an end.
func TestStandbyWaitEndsWhenActiveServesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		a.up(t)
		k := clock.Bubble()
		b := &server{store: disk.Store(memstore.Options{Clock: k, ActiveTTL: activeTTL}), end: make(chan error, 1)}
		defer b.store.Close()
		b.Cell = cell.New(cell.Options{Store: modest{b.store}, Node: store.Node{ID: [16]byte{'b'}, Link: "b"}, Clock: k, Name: "test", ActiveTTL: activeTTL})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { b.end <- b.Run(ctx) }()
		defer func() {
			cancel()
			<-b.end
		}()
		time.Sleep(2 * activeTTL)
		held := b.hold(t.Context(), "a")
		time.Sleep(activeTTL / 3)
		a.stop()
		time.Sleep(activeTTL / 3)
		again := start(t, disk, "a", false)
		defer again.stop()
		again.up(t)
		if got := <-held; got.link != "a" || got.after > activeTTL {
			t.Errorf("let go after %v, to %q", got.after, got.link)
		}
	})
}

// A caller is not sent to where the active server was when somebody else was held here.
func TestStandbyDoesNotRedirectByStaleState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		a.up(t)
		k := clock.Bubble()
		b := &server{store: disk.Store(memstore.Options{Clock: k, ActiveTTL: activeTTL}), end: make(chan error, 1)}
		defer b.store.Close()
		b.Cell = cell.New(cell.Options{Store: modest{b.store}, Node: store.Node{ID: [16]byte{'b'}, Link: "b"}, Clock: k, Name: "test", ActiveTTL: activeTTL})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { b.end <- b.Run(ctx) }()
		defer func() {
			cancel()
			<-b.end
		}()
		time.Sleep(2 * activeTTL)
		if link := b.WaitForActive(t.Context(), "a", time.Second); link != "" {
			t.Errorf("the active server lives, and its caller is sent to %q", link)
		}
		a.crash()
		c := start(t, disk, "c", false)
		defer c.stop()
		c.up(t)
		time.Sleep(2 * activeTTL)
		if link := b.WaitForActive(t.Context(), "c", time.Second); link != "" {
			t.Errorf("a caller that does not reach c is sent to %q", link)
		}
	})
}

// Nobody is held who has somewhere to go, or longer than is said.
func TestNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		defer a.stop()
		a.up(t)
		b := start(t, disk, "b", false)
		defer b.stop()
		time.Sleep(2 * activeTTL)
		if got := <-a.hold(t.Context(), "a"); got != (let{}) {
			t.Errorf("the active server held a caller: %+v", got)
		}
		if got := <-b.hold(t.Context(), "somewhere else"); got != (let{}) {
			t.Errorf("a standby held who did not look for the active server: %+v", got)
		}
		if got := <-b.hold(t.Context(), "a"); got.link != "" || got.after != 2*activeTTL {
			t.Errorf("the active server lives, and a caller that does not reach it was held so: %+v", got)
		}
		before := time.Now()
		if link := b.WaitForActive(t.Context(), "a", time.Second); link != "" || time.Since(before) != time.Second {
			t.Errorf("held for %v, and sent to %q, with patience for a second", time.Since(before), link)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if got := <-b.hold(short, "a"); got.after != time.Second {
			t.Errorf("held beyond the end of its call: %+v", got)
		}
	})
}

// counting counts how often the store is asked who is active.
type counting struct {
	store.Store
	asked atomic.Int64
}

func (c *counting) Active(ctx context.Context) (store.Node, error) {
	c.asked.Add(1)
	return c.Store.Active(ctx)
}

// However many are held, the store is asked as for one, and nobody asks it when
// all have gone.
func TestManyStandbyWaitsShareOneQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := memstore.NewDisk()
		a := start(t, disk, "a", false)
		a.up(t)
		k := clock.Bubble()
		b := &server{store: disk.Store(memstore.Options{Clock: k, ActiveTTL: activeTTL}), end: make(chan error, 1)}
		defer b.store.Close()
		asking := &counting{Store: b.store}
		b.Cell = cell.New(cell.Options{Store: asking, Node: store.Node{ID: [16]byte{'b'}, Link: "b"}, Clock: k, Name: "test", ActiveTTL: activeTTL})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { b.end <- b.Run(ctx) }()
		defer func() {
			cancel()
			<-b.end
		}()
		time.Sleep(2 * activeTTL)
		a.crash()
		before := asking.asked.Load()
		held := make([]<-chan let, 1000)
		for i := range held {
			held[i] = b.hold(t.Context(), "a")
		}
		b.up(t)
		for i, h := range held {
			if got := <-h; got.link != "" || got.after > activeTTL+time.Second {
				t.Fatalf("caller %d was let go so: %+v", i, got)
			}
		}
		if n := asking.asked.Load() - before; n > 60 {
			t.Errorf("the store was asked %d times in %v", n, activeTTL)
		}
		before = asking.asked.Load()
		time.Sleep(10 * activeTTL)
		if n := asking.asked.Load() - before; n != 0 {
			t.Errorf("the store was asked %d times for nobody", n)
		}
	})
}
