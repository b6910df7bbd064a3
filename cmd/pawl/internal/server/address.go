package server

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/bearer"
	"github.com/pawlproject/pawl/internal/dialerr"
)

// Off switches a listener off.
const Off = "off"

// CheckAddress refuses an address that is not host:port. If closed is not empty, it
// also refuses anything but the loopback; closed is the reason ("without TLS"). The
// error names the reason and the flag.
func CheckAddress(flag, address, closed string) error {
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
	if host != "" {
		if err := dialerr.CheckHost(host); err != nil {
			return fmt.Errorf("%s is %q: %w", flag, address, err)
		}
	}
	if closed == "" || bearer.Loopback(host) {
		return nil
	}
	return fmt.Errorf("%s is %s, which others can reach: %s only the loopback is allowed; "+
		"--insecure lets everybody who can reach it do everything", flag, address, closed)
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
	// Whose certificate it is does not matter: nothing is told to who answers.
	anybody := credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true})
	for _, creds := range []credentials.TransportCredentials{insecure.NewCredentials(), anybody} {
		if linkAt(ctx, address, creds) {
			return true
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/status", nil)
	if err != nil {
		return false
	}
	// One that sends elsewhere is not who listens there.
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	var shown struct{ Cell string }
	return json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&shown) == nil && shown.Cell != ""
}

// linkAt reports whether a link answers, if only to ask who is there.
func linkAt(ctx context.Context, address string, creds credentials.TransportCredentials) bool {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return false
	}
	defer conn.Close()
	_, err = linkpb.NewLinkClient(conn).Status(ctx, &linkpb.StatusRequest{})
	for _, d := range status.Convert(err).Details() {
		if r, ok := d.(*linkpb.RefusedDetail); ok {
			return r.GetRefused().GetReason() == linkpb.Reason_REASON_UNAUTHENTICATED
		}
	}
	return err == nil
}
