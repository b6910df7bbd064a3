package pawl_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl"
)

// What is no address is refused at once, and says what one looks like.
func TestDialOfNoAddress(t *testing.T) {
	for _, server := range []string{"", "localhost", ":7420", "127.0.0.1:", "127.0.0.1:99999", "http://127.0.0.1:7420"} {
		c, err := pawl.Dial(t.Context(), []string{"127.0.0.1:7420", server}, pawl.Options{})
		if c != nil || !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "host:port was expected, such as 127.0.0.1:7420") {
			t.Errorf("%q: %v", server, err)
		}
	}
}

// A server that is not there is told in plain words, not in gRPC's.
func TestDialOfNobody(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	expected := "pawl: dial: no server answers at " + address + ": connection refused (context deadline exceeded)"
	// A machine under load may not come to it in one of these times.
	text := ""
	for try := 0; try < 100 && text != expected; try++ {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		c, err := pawl.Dial(ctx, []string{address}, pawl.Options{})
		cancel()
		if c != nil || !errors.Is(err, pawl.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		text = err.Error()
	}
	if text != expected {
		t.Errorf("it reads %q, expected %q", text, expected)
	}
}
