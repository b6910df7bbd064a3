package rest

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/pawlproject/pawl/internal/locktable"
)

const statusPattern = "GET /v1/status"

// toActive sends a request that this standby cannot answer to the active server: 307
// keeps its method and its body. It reports whether it did.
//
// Passing the request on would spare clients that do not follow redirects, and was
// rejected: a client certificate cannot be passed on; a standby would hand credentials
// to whichever address the store names, over connections for which it needs authorities
// of its own; and each wait would hang on two servers, so that a standby that stops
// would end the waits of the active one.
func (f *front) toActive(w http.ResponseWriter, r *http.Request, pattern string) bool {
	to := f.elsewhere(r, pattern)
	if to == "" {
		return false
	}
	p := problem(locktable.Unavailable, "this server stands by; ask the active one")
	p.Status, p.Title = http.StatusTemporaryRedirect, http.StatusText(http.StatusTemporaryRedirect)
	p.ActiveHTTP = f.service.cell.Info().ActiveHTTP
	w.Header().Set("Location", to)
	p.write(w)
	return true
}

// elsewhere is where the active server answers a request; empty: this server answers it,
// or refuses it.
func (f *front) elsewhere(r *http.Request, pattern string) string {
	info := f.service.cell.Info()
	if _, asksCell := f.bodies[pattern]; !asksCell || pattern == statusPattern || info.Active || info.ActiveHTTP == "" {
		return ""
	}
	host, _, err := net.SplitHostPort(info.ActiveHTTP)
	switch {
	case err != nil:
		return ""
	case strings.EqualFold(info.ActiveHTTP, r.Host):
		// The active server is on another machine, and advertises an address that means
		// this one here: the caller would come back.
		return ""
	case loopback(host) && !fromLoopback(r):
		return "" // nobody else's to reach
	}
	scheme := "http"
	if f.service.tls {
		scheme = "https"
	}
	return (&url.URL{Scheme: scheme, Host: info.ActiveHTTP, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}).String()
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && a.Unmap().IsLoopback()
}
