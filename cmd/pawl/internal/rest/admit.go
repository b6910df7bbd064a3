package rest

import (
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"

	"github.com/pawlproject/pawl/internal/access"
)

// admit finds the caller of a request and puts it into the request's context. Health
// needs no caller. Metrics need none from the loopback: they show no names, and their
// collector needs no credential.
func (f *front) admit(r *http.Request, pattern string) (*http.Request, error) {
	if f.authorizer == nil || pattern == livePattern || pattern == readyPattern || pattern == metricsPattern && fromLoopback(r) {
		return r, nil
	}
	p := access.Proof{Authorization: r.Header.Values("Authorization"), Chain: chainOf(r), Remote: r.RemoteAddr, At: f.now()}
	// The handlers do not need it, and a dump of the request must not show it.
	r.Header.Del("Authorization")
	ctx := access.Present(r.Context(), p)
	caller, err := f.authorizer.Admit(ctx, pattern)
	if err != nil {
		return r, err
	}
	ctx = access.With(r.Context(), caller)
	if pattern == metricsPattern {
		err = f.authorizer.Metrics(ctx)
	}
	return r.WithContext(ctx), err
}

func chainOf(r *http.Request) []*x509.Certificate {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return nil
	}
	return r.TLS.VerifiedChains[0]
}

func fromLoopback(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
