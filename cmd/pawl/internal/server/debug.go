package server

import (
	"net/http"
	"net/http/pprof"
)

// debugHandler serves profiles to programs on this machine. It refuses web pages in a
// browser on the machine, whether a name of theirs resolves to this server or they send
// requests from their own origin.
func debugHandler(allowed func(host string) bool) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site := r.Header.Get("Sec-Fetch-Site")
		if !allowed(r.Host) || site != "" && site != "none" && site != "same-origin" {
			http.Error(w, "profiles are for this machine alone: the host is another one's, or the request another site's", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
