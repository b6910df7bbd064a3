package testport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports from portsFrom up to portsTo lie below those that the system gives out by itself.
const (
	portsFrom  = 15_000
	portsTo    = 32_000
	portsTries = 100
)

// given are the addresses that were found free.
var given sync.Map

// Free returns an address on the loopback, as HOST:PORT, that nobody listens on. It fails
// when portsTries ports were taken or given before.
func Free() (address string, err error) {
	refused := errors.New("all were given before")
	for range portsTries {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", portsFrom+rand.IntN(portsTo-portsFrom)))
		if err != nil {
			refused = err
			continue
		}
		address := l.Addr().String()
		if err := l.Close(); err != nil {
			return "", err
		}
		if _, known := given.LoadOrStore(address, true); !known {
			return address, nil
		}
	}
	return "", fmt.Errorf("no port is free: %w", refused)
}
