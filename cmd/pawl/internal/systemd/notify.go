package systemd

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// notifyMax bounds the wait for a service manager that does not read.
const notifyMax = time.Second

// Notify sends a state to the socket in NOTIFY_SOCKET (see sd_notify(3)): a path, or a
// name in the abstract name space, which begins with "@" for Go as for systemd. Without
// a socket it does nothing.
func Notify(socket, state string, c clock.Clock) error {
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("reach NOTIFY_SOCKET: %w", err)
	}
	if err := conn.SetWriteDeadline(c.Wall().Add(notifyMax)); err != nil {
		return errors.Join(err, conn.Close())
	}
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}
