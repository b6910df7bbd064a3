package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawlproject/pawl/api/linkpb"
)

// Off switches a listener off.
const Off = "off"

// CheckAddress refuses what is no host:port, and anything but the loopback
// unless insecure. The name of the flag goes into the error.
func CheckAddress(flag, address string, insecure bool) error {
	if address == Off {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return fmt.Errorf("%s is %q; expected host:port, such as 127.0.0.1:7420, or %q", flag, address, Off)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("%s is %q; expected a port from 0 to 65535 (0: a free one)", flag, address)
	}
	if insecure || loopback(host) {
		return nil
	}
	return fmt.Errorf("%s is %s, which others can reach: without TLS and an auth file only the loopback is allowed; "+
		"--insecure says that whoever can reach it may do everything", flag, address)
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// notListening says why an address cannot be listened on, and what to do.
func notListening(flag, address string, err error) string {
	if !errors.Is(err, syscall.EADDRINUSE) {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return fmt.Sprintf("%s %s: %v", flag, address, err)
	}
	who := "another program listens there"
	if pawlAt(address) {
		who = "a pawl server answers there already"
	}
	return fmt.Sprintf("%s %s: the address is in use, %s; a second server needs another --listen, --http and --data", flag, address, who)
}

// askMax bounds the question who listens at an address.
const askMax = time.Second

// pawlAt reports whether a server of ours answers at an address, by its link or
// by HTTP.
func pawlAt(address string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), askMax)
	defer cancel()
	if conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials())); err == nil {
		_, err = linkpb.NewLinkClient(conn).Status(ctx, &linkpb.StatusRequest{})
		_ = conn.Close() // nothing is under way
		if err == nil {
			return true
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/status", nil)
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	var status struct{ Cell string }
	return json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&status) == nil && status.Cell != ""
}

// reachedAt is where others reach a listener: a listener on every address is
// reached by this host's name.
func reachedAt(l net.Listener) string {
	if l == nil {
		return ""
	}
	a := l.Addr().String()
	host, port, err := net.SplitHostPort(a)
	if err != nil {
		return a
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			return net.JoinHostPort(name, port)
		}
	}
	return a
}
