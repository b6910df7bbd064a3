package peerconn

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// A peer's connection ends its reads and writes by its own bound and by the deadline of
// its user, the earlier one. net/http sets a deadline in the past to end a read that is
// under way, and one for a request's header.
func TestPeerConnKeepsBothDeadlines(t *testing.T) {
	for what, c := range map[string]struct {
		users time.Duration // 0: none
		// first and again are how long two reads take.
		first, again time.Duration
	}{
		"no deadline":     {0, ReadMax, ReadMax},
		"an earlier one":  {time.Second, time.Second, 0},
		"a later one":     {time.Minute, ReadMax, ReadMax},
		"one in the past": {-time.Second, 0, 0},
	} {
		for _, writes := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				defer far.Close()
				defer near.Close()
				conn := &timedConn{Conn: near, clock: clock.Bubble()}
				set, use := conn.SetReadDeadline, conn.Read
				if writes {
					set, use = conn.SetWriteDeadline, conn.Write
				}
				if c.users != 0 {
					if err := set(time.Now().Add(c.users)); err != nil {
						t.Fatal(err)
					}
				}
				for _, expected := range []time.Duration{c.first, c.again} {
					begun := time.Now()
					_, err := use(make([]byte, 1))
					if took := time.Since(begun); !errors.Is(err, os.ErrDeadlineExceeded) || took != expected {
						t.Errorf("%s, writes %v: %v after %v, expected a time-out after %v", what, writes, err, took, expected)
					}
				}
			})
		}
	}
}

// A deadline set while a read is under way ends it.
func TestPeerConnReadIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		defer near.Close()
		conn := &timedConn{Conn: near, clock: clock.Bubble()}
		begun := time.Now()
		ended := make(chan error, 1)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			ended <- err
		}()
		synctest.Wait()
		if err := conn.SetDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
