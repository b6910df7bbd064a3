package guarddb

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/pgdsn"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/httpguard"
	"github.com/pawlproject/pawl/internal/authority"
)

// againAfter is the pause before a claim is repeated that requests under lower tokens hold
// up. The guard waits for them as well, for its own time.
const againAfter = 100 * time.Millisecond

// httpMarks repeats a claim that is busy.
type httpMarks struct {
	httpguard.Client
	wait time.Duration
}

// Claim implements guard.Claimer.
func (m httpMarks) Claim(ctx context.Context, f guard.Fence) error {
	enough := time.NewTimer(m.wait) //tidy:clock how often a claim is repeated decides nothing
	defer enough.Stop()
	for {
		err := m.Client.Claim(ctx, f)
		if !errors.Is(err, httpguard.ErrBusy) || errors.Is(err, httpguard.ErrUnreachable) {
			return err
		}
		again := time.NewTimer(againAfter) //tidy:clock a pause between two tries decides nothing
		select {
		case <-again.C:
		case <-enough.C:
			again.Stop()
			return err
		case <-ctx.Done():
			again.Stop()
			return err
		}
	}
}

// The variables that name PEM files for a guard over https: the authorities of its
// certificate, where they are not the system's, and the certificate and key to show it.
const (
	caEnv   = "PAWL_GUARD_CA"
	certEnv = "PAWL_GUARD_CERT"
	keyEnv  = "PAWL_GUARD_KEY"
)

func openHTTP(base string, wait time.Duration) (*DB, error) {
	t, err := secureTransport(os.Getenv(caEnv), os.Getenv(certEnv), os.Getenv(keyEnv))
	if err != nil {
		return nil, exit.Failed(exit.CodeUsage, "%s", pgdsn.OneLine(err))
	}
	c, err := httpguard.NewClient(base, t)
	if err != nil {
		return nil, ErrDSN
	}
	return &DB{marks: httpMarks{c.Wait(wait), wait}, Close: t.CloseIdleConnections, Text: pgdsn.OneLine, explain: explainHTTP}, nil
}

// secureTransport reads the files that are named; empty: none is.
func secureTransport(ca, cert, key string) (*http.Transport, error) {
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("%s and %s belong together; expected both", certEnv, keyEnv)
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pool, err := authority.Load(ca)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", caEnv, err)
		}
		secure.RootCAs = pool
	}
	if cert != "" {
		pair, err := authority.Pair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s %s with %s %s: %w", certEnv, cert, keyEnv, key, err)
		}
		secure.Certificates = []tls.Certificate{*pair}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig = secure
	return t, nil
}

// explainHTTP finds the exit code of an error of a guard over HTTP. One that cannot be
// reached is busy, too.
func explainHTTP(err error) (code int, advice string) {
	if errors.Is(err, httpguard.ErrBusy) && !errors.Is(err, httpguard.ErrUnreachable) {
		return exit.CodeNotAcquired, ""
	}
	return exit.CodeUnavailable, ""
}
