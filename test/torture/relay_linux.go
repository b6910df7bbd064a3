package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/internal/clock"
)

// relay passes on, later, the connections of one node that are redirected to it.
type relay struct {
	ctx       context.Context // the run's
	namespace namespace
	listener  net.Listener
	late      atomic.Int64 // nanoseconds, for each way
}

func newRelay(ctx context.Context, n namespace) (*relay, error) {
	r := &relay{ctx: ctx, namespace: n}
	err := n.do(func() (err error) {
		r.listener, err = net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", relayPort))
		return err
	})
	if err == nil {
		go r.accept()
	}
	return r, err
}

// accept ends with the process.
func (r *relay) accept() {
	for {
		near, err := r.listener.Accept()
		if err != nil {
			return
		}
		go r.serve(near.(*net.TCPConn))
	}
}

func (r *relay) serve(near *net.TCPConn) {
	defer near.Close()
	to, err := originalDestination(near)
	if err != nil {
		return
	}
	marked := net.Dialer{Timeout: 5 * time.Second, Control: func(_, _ string, c syscall.RawConn) (err error) {
		cerr := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, relayMark) })
		if cerr != nil {
			return cerr
		}
		return err
	}}
	var far net.Conn
	err = r.namespace.do(func() (err error) {
		far, err = marked.Dial("tcp4", to.String())
		return err
	})
	if err != nil {
		_ = near.SetLinger(0) // the caller sees a reset
		return
	}
	defer far.Close()
	done := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		r.pass(to, from)
		done <- struct{}{}
	}
	go pass(far, near)
	go pass(near, far)
	<-done
}

// chunksMost bounds what is on its way.
const chunksMost = 1024

// pass copies bytes, each piece some time after it came.
func (r *relay) pass(to io.Writer, from io.Reader) {
	type piece struct {
		due   moment
		bytes []byte
	}
	under := make(chan piece, chunksMost)
	ended := make(chan struct{})
	go func() {
		defer close(under)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if n > 0 {
				select {
				case under <- piece{clock.Boottime() + time.Duration(r.late.Load()), buf[:n]}:
				case <-ended:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	defer close(ended)
	for p := range under {
		if wait(r.ctx, p.due-clock.Boottime()) != nil {
			return
		}
		if _, err := to.Write(p.bytes); err != nil {
			return
		}
	}
}

// originalDestination is where a redirected connection was to go.
func originalDestination(c *net.TCPConn) (netip.AddrPort, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return netip.AddrPort{}, err
	}
	var to netip.AddrPort
	cerr := raw.Control(func(fd uintptr) {
		// The kernel writes a sockaddr_in, 16 bytes, into what the call takes for an
		// address of multicast.
		var mreq *unix.IPv6Mreq
		if mreq, err = unix.GetsockoptIPv6Mreq(int(fd), unix.IPPROTO_IP, unix.SO_ORIGINAL_DST); err == nil {
			b := mreq.Multiaddr
			to = netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), binary.BigEndian.Uint16(b[2:4]))
		}
	})
	if cerr != nil {
		return to, cerr
	}
	return to, err
}
