package link

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/cell"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store/memstore"
)

// A client that is kept is let go as soon as it goes, must go, or its certificate is over:
// not when the time is up for which it would have stayed.
func TestStandbyWaitEndsWithClientsRights(t *testing.T) {
	torn := errors.New("the stream is torn")
	for what, x := range map[string]struct {
		end  func(d *streamCaller, ended chan<- error, over chan<- struct{})
		want func(error) bool
	}{
		"it must go": {
			func(d *streamCaller, _ chan<- error, _ chan<- struct{}) { d.out <- access.ErrRevoked },
			func(err error) bool { return status.Code(err) == codes.Unauthenticated },
		},
		"its certificate is over": {
			func(_ *streamCaller, _ chan<- error, over chan<- struct{}) { over <- struct{}{} },
			func(err error) bool { return status.Code(err) == codes.Unauthenticated },
		},
		"its stream ends": {
			func(_ *streamCaller, ended chan<- error, _ chan<- struct{}) { ended <- torn },
			func(err error) bool { return err == torn },
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := clock.Bubble()
				store := memstore.NewDisk().Store(memstore.Options{Clock: k, Sole: true})
				defer store.Close()
				s := New(cell.New(cell.Options{Store: store, Clock: k, Name: "test", ActiveTTL: 3 * time.Second}), Options{Clock: k})
				d := &streamCaller{server: s, out: make(chan error, 1)}
				ended, over := make(chan error, 1), make(chan struct{}, 1)
				h := hello()
				h.WaitNano = int64(time.Second)
				kept := make(chan error, 1)
				begun := time.Now()
				go func() {
					_, err := s.waitForActive(t.Context(), d, h, ended, over)
					kept <- err
				}()
				synctest.Wait()
				x.end(d, ended, over)
				if err := <-kept; !x.want(err) || time.Since(begun) != 0 {
					t.Errorf("after %v: %v", time.Since(begun), err)
				}
			})
		})
	}
}
