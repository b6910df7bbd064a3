package link

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/pawlproject/pawl/internal/clock"
)

const (
	// BlockMax bounds the time of a header block from its first frame to its last,
	// blockFrames its frames, blockBytes their bytes. gRPC bounds none of them.
	// HeaderMax bounds the content of a block; a block that has no content, or does not
	// end, is read without limit, before any credential is checked.
	BlockMax    = 10 * time.Second
	blockFrames = 16
	blockBytes  = 64 << 10
)

// ErrHeaders is why a connection is closed whose header block is too large.
var ErrHeaders = errors.New("the header block has too many frames or bytes")

// Blocks returns c with connections on which header blocks are bounded. That one is
// closed for it is logged, once in logGap.
func Blocks(c credentials.TransportCredentials, k clock.Clock, log *slog.Logger) credentials.TransportCredentials {
	return &blocks{c, &blockLog{clock: k, log: log}}
}

type blocks struct {
	credentials.TransportCredentials
	log *blockLog
}

// ServerHandshake implements credentials.TransportCredentials. What it returns has
// been decrypted: behind it frames can be told apart.
func (b *blocks) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := b.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	return &blockConn{Conn: c, log: b.log, skip: len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}, info, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (b *blocks) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return b.TransportCredentials.ClientHandshake(ctx, authority, raw)
}

// Clone implements credentials.TransportCredentials.
func (b *blocks) Clone() credentials.TransportCredentials {
	return &blocks{b.TransportCredentials.Clone(), b.log}
}

// blockLog tells the operator of connections that are closed for a header block.
type blockLog struct {
	clock clock.Clock
	log   *slog.Logger
	limit logLimit
}

// closed logs that a connection is closed, and why.
func (l *blockLog) closed(remote net.Addr, why error) {
	if n, ok := l.limit.allow(l.clock.Now()); ok {
		l.log.Warn("a connection is closed for its header block", "remote", remote.String(), "error", why, "closed_before", n)
	}
}

// blockConn follows the frames that a client sends. Reads are by one goroutine at a
// time.
type blockConn struct {
	net.Conn
	log *blockLog
	// skip is what is left of the preface or of a frame's payload, head what is there
	// of the next frame's head.
	skip int
	head [9]byte
	have int
	// open: a header block has begun and not ended; frames and bytes are its, and
	// until is when it must have ended.
	open          bool
	frames, bytes int
	until         time.Time
}

// The parts of HTTP/2 (RFC 9113) that blocks are told by.
const (
	frameHeaders      = 0x1
	frameContinuation = 0x9
	flagEndHeaders    = 0x4
)

// Read implements net.Conn.
func (c *blockConn) Read(b []byte) (int, error) {
	if c.open {
		// Each time: gRPC takes the deadline of the handshakes away, behind which a
		// block may have begun.
		if err := c.SetReadDeadline(c.until); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(b)
	if c.open && errors.Is(err, os.ErrDeadlineExceeded) {
		c.log.closed(c.RemoteAddr(), fmt.Errorf("the header block did not end within %v", BlockMax)) // gRPC closes it
	}
	if follow := c.follow(b[:n]); follow != nil {
		c.log.closed(c.RemoteAddr(), follow)
		_ = c.Conn.Close() // gRPC would, when it has read what is there
		return 0, follow
	}
	return n, err
}

func (c *blockConn) follow(b []byte) error {
	for len(b) > 0 {
		if c.skip > 0 {
			n := min(c.skip, len(b))
			c.skip -= n
			b = b[n:]
			continue
		}
		n := copy(c.head[c.have:], b)
		c.have += n
		b = b[n:]
		if c.have < len(c.head) {
			return nil
		}
		c.have = 0
		if err := c.frame(); err != nil {
			return err
		}
	}
	return nil
}

// frame takes in the head of a frame.
func (c *blockConn) frame() error {
	c.skip = int(binary.BigEndian.Uint32(c.head[:4]) >> 8)
	kind, ends := c.head[3], c.head[4]&flagEndHeaders != 0
	if kind != frameHeaders && kind != frameContinuation {
		return nil // inside a block gRPC takes no other
	}
	if kind == frameHeaders {
		c.frames, c.bytes = 0, 0
	}
	c.frames++
	if c.bytes += c.skip; c.frames > blockFrames || c.bytes > blockBytes {
		return ErrHeaders
	}
	switch {
	case ends && c.open:
		c.open = false
		return c.SetReadDeadline(time.Time{})
	case !ends && !c.open:
		c.open, c.until = true, c.log.clock.Wall().Add(BlockMax)
	}
	return nil
}
