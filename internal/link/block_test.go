package link

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawlproject/pawl/internal/clock"
)

func frameOf(kind, flags byte, payload int) string {
	return string([]byte{byte(payload >> 16), byte(payload >> 8), byte(payload), kind, flags, 0, 0, 0, 1}) + strings.Repeat("x", payload)
}

// A header block that does not end, or is cut into too many frames, ends its
// connection; what calls consist of does not, however it is cut up.
func TestHeaderBlocksAreBounded(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	const settings, data = 0x4, 0x0
	begun := preface + frameOf(settings, 0, 6) + frameOf(frameHeaders, 0, 10)
	for what, tc := range map[string]struct {
		sent string
		err  error
		took time.Duration
	}{
		"calls": {preface + strings.Repeat(
			frameOf(frameHeaders, flagEndHeaders, 200)+frameOf(data, 1, 5000)+
				frameOf(frameHeaders, 0, 16<<10)+frameOf(frameContinuation, 0, 0)+frameOf(frameContinuation, flagEndHeaders, 1<<10), 50,
		), io.EOF, time.Minute},
		"empty frames":          {begun + strings.Repeat(frameOf(frameContinuation, 0, 0), blockFrames), ErrHeaders, 0},
		"too many bytes":        {begun + strings.Repeat(frameOf(frameContinuation, 0, 16<<10), 4), ErrHeaders, 0},
		"it is not over":        {begun, os.ErrDeadlineExceeded, BlockMax},
		"nor a frame's payload": {preface + frameOf(frameHeaders, 0, 100)[:50], os.ErrDeadlineExceeded, BlockMax},
	} {
		for _, portion := range []int{1 << 20, 7} {
			synctest.Test(t, func(t *testing.T) {
				client, raw := net.Pipe()
				c, _, err := Blocks(insecure.NewCredentials(), clock.Bubble(), slog.New(slog.DiscardHandler)).ServerHandshake(raw)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					for rest := tc.sent; rest != ""; {
						n := min(portion, len(rest))
						if _, err := io.WriteString(client, rest[:n]); err != nil {
							return // it is closed
						}
						rest = rest[n:]
					}
					if tc.err == io.EOF {
						time.Sleep(time.Minute)
						client.Close()
					}
				}()
				from := time.Now()
				buf := make([]byte, 32<<10)
				n := 0
				for err == nil {
					n, err = c.Read(buf)
					// As gRPC does when its handshakes are over.
					_ = c.SetDeadline(time.Time{})
				}
				if took := time.Since(from); !errors.Is(err, tc.err) || took != tc.took || n != 0 {
					t.Errorf("%s, %d bytes at a time: %v after %v, expected %v after %v", what, portion, err, took, tc.err, tc.took)
				}
				client.Close()
				c.Close()
			})
		}
	}
}

// The operator is told which connections are closed for a header block, and why: one
// line a minute, with how many there were in between.
func TestConnectionsClosedForHeaderBlocksAreLogged(t *testing.T) {
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	begun := preface + frameOf(frameHeaders, 0, 10)
	tooMany := begun + strings.Repeat(frameOf(frameContinuation, 0, 0), blockFrames)
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		log := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		creds := Blocks(insecure.NewCredentials(), clock.Bubble(), log)
		told := func(sent string, hangUp bool) string {
			t.Helper()
			lines.Reset()
			client, raw := net.Pipe()
			defer client.Close()
			c, _, err := creds.Clone().ServerHandshake(raw)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			go func() {
				_, _ = io.WriteString(client, sent)
				if hangUp {
					client.Close()
				}
			}()
			for buf := make([]byte, 32<<10); err == nil; {
				_, err = c.Read(buf)
			}
			return lines.String()
		}
		line := func(why string, before int) string {
			return fmt.Sprintf("level=WARN msg=\"a connection is closed for its header block\" remote=pipe error=%q closed_before=%d\n", why, before)
		}
		const unended = "the header block did not end within 10s"
		for i, step := range []struct {
			sent   string
			hangUp bool
			later  time.Duration
			said   string
		}{
			{preface, true, 0, ""},
			{begun, true, 0, ""},
			{tooMany, false, 0, line(ErrHeaders.Error(), 0)},
			{tooMany, false, 0, ""},
			{begun, false, 0, ""},
			{tooMany, false, logGap, line(ErrHeaders.Error(), 2)},
			{begun, false, logGap, line(unended, 0)},
		} {
			time.Sleep(step.later)
			if said := told(step.sent, step.hangUp); said != step.said {
				t.Errorf("%d: the log says %q, expected %q", i, said, step.said)
			}
		}
	})
}
