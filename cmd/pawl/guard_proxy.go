package main

import (
	"errors"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/guardproxy"
	"github.com/pawlproject/pawl/cmd/pawl/internal/server"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/httpguard"
)

type proxyFlags struct {
	o                  guardproxy.Options
	upstream           string
	maxUpstream, drain flags.Duration
	insecure, untilEOF bool
	logFormat          flags.Choice
	logLevel           flags.Choice
}

func newGuardProxy() *cobra.Command {
	v := proxyFlags{
		maxUpstream: flags.Duration{Value: httpguard.LingerDefault},
		drain:       flags.Duration{Value: httpguard.WaitDefault},
		logFormat:   flags.Choice{Value: "text", Of: []string{"text", "json"}},
		logLevel:    flags.Choice{Value: "info", Of: []string{"debug", "info", "warn", "error"}},
	}
	cmd := &cobra.Command{
		Use:   "proxy --upstream URL --state FILE",
		Short: "Guard an HTTP service that cannot be changed",
		Long: `Proxy is a reverse proxy that lets a request through to the upstream when its fence
has not been overtaken. A request shows it in a header:

  Fencing-Token: "1876093218091008";r="orders/7";cell="default-9f86d081884c7d65"

Without the header it answers 428, for a lower token than the resource has seen 412,
and while requests under lower tokens are in flight 503. GET, HEAD and OPTIONS
without the header pass. POST /.pawl/claim with the header claims; "pawl run
--claim http://…" and "pawl guard claim --dsn http://…" do it, too.

All requests for a resource must go through one proxy: two of them, or a second way
to the upstream, guard nothing. The marks are in the file --state, which a restart
reads; keep it. After a time-out or a crash the proxy cannot see whether the upstream
is still at work: it waits until --max-upstream has passed, and is safe only if the
upstream has answered or given up a request by then. docs/guards-http.md tells more.

HUP, INT and TERM stop it cleanly: it waits for what is in flight.

Exit codes: 0 stopped as asked, 64 invalid usage, 69 it cannot serve (an address in
use, a state file that cannot be used or that another proxy uses), 1 otherwise.`,
		Example: `  pawl guard proxy --upstream http://127.0.0.1:9000 --state ./orders-guard.db
  curl -H 'Fencing-Token: 43;r="orders/7"' -d paid http://127.0.0.1:7425/orders/7`,
		Args: flags.None,
	}
	f := cmd.Flags()
	f.StringVar(&v.o.Listen, "listen", "127.0.0.1:7425", "address that clients send to")
	f.StringVar(&v.upstream, "upstream", "", "URL of the service, http or https")
	f.StringVar(&v.o.State, "state", "", "SQLite file with the marks; it is made when it is missing")
	f.StringVar(&v.o.Gate.Cell, "cell", "", "id of the cell of fences that name none")
	f.StringVar(&v.o.Gate.Resource, "resource", "", "resource of fences that name none")
	f.BoolVar(&v.o.Gate.GuardReads, "guard-reads", false, "refuse GET, HEAD and OPTIONS without a fence, too")
	f.Var(&v.maxUpstream, "max-upstream", "the longest time in which the upstream answers or gives up a request, 1s to 1h")
	f.Var(&v.drain, "drain-timeout", "how long a request waits for requests under lower tokens, 1ms to 1h")
	f.StringVar(&v.o.Metrics, "metrics-listen", guardproxy.Off, "address of /metrics, or \"off\"")
	f.StringVar(&v.o.Cert, "tls-cert", "", "certificate, PEM")
	f.StringVar(&v.o.Key, "tls-key", "", "its key, PEM")
	f.StringVar(&v.o.ClientCA, "tls-client-ca", "", "authorities, PEM, of the certificates that clients must have")
	f.BoolVar(&v.insecure, "insecure", false, "allow addresses that others can reach, without TLS and certificates of clients")
	f.Var(&v.logFormat, "log-format", "format of the log on the standard error")
	f.Var(&v.logLevel, "log-level", "least level that is logged")
	f.BoolVar(&v.untilEOF, "until-eof", false, "stop when the standard input ends")
	_ = f.MarkHidden("until-eof") // fails for unknown names only
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := v.validate(cmd); err != nil {
			return err
		}
		return v.run(cmd)
	}
	return cmd
}

// validate checks what the flags say and fills in what they are worth.
func (v *proxyFlags) validate(cmd *cobra.Command) error {
	u, err := url.Parse(v.upstream)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return exit.Usage(cmd, "--upstream is missing or no URL; expected http://HOST:PORT or https://HOST:PORT")
	}
	v.o.Upstream = u
	if v.o.State == "" {
		return exit.Usage(cmd, "--state is missing; expected a file for the marks, which must outlive the proxy")
	}
	closed := ""
	if !v.insecure && (v.o.Cert == "" || v.o.ClientCA == "") {
		closed = "without TLS and certificates of clients (--tls-cert, --tls-key, --tls-client-ca)"
	}
	if v.o.Listen == server.Off {
		return exit.Usage(cmd, "--listen is off; expected an address")
	}
	if err := server.CheckAddress("--listen", v.o.Listen, closed); err != nil {
		return exit.Usage(cmd, "%v", err)
	}
	if !v.insecure {
		closed = "for metrics, which have neither TLS nor callers with a name,"
	}
	if err := server.CheckAddress("--metrics-listen", v.o.Metrics, closed); err != nil {
		return exit.Usage(cmd, "%v", err)
	}
	files := server.Files{Cert: v.o.Cert, Key: v.o.Key, ClientCA: v.o.ClientCA}
	if err := files.Check(); err != nil {
		return exit.Usage(cmd, "%v", err)
	}
	if d := v.maxUpstream.Value; d < time.Second || d > time.Hour {
		return exit.Usage(cmd, "--max-upstream is %v; expected 1s to 1h", d)
	}
	if d := v.drain.Value; d < time.Millisecond || d > time.Hour {
		return exit.Usage(cmd, "--drain-timeout is %v; expected 1ms to 1h", d)
	}
	for _, given := range []struct {
		flag, text string
		f          guard.Fence
	}{
		{"--cell", v.o.Gate.Cell, guard.Fence{Resource: "any", Token: 1, Cell: v.o.Gate.Cell}},
		{"--resource", v.o.Gate.Resource, guard.Fence{Resource: v.o.Gate.Resource, Token: 1, Cell: "any"}},
	} {
		if err := given.f.Validate(); given.text != "" && err != nil {
			return exit.Usage(cmd, "%s is %.40q: %v", given.flag, given.text, err)
		}
	}
	v.o.Gate.Linger, v.o.Gate.Wait = v.maxUpstream.Value, v.drain.Value
	v.o.Logger = newLogger(cmd.ErrOrStderr(), v.logFormat.Value, v.logLevel.Value)
	return nil
}

func (v *proxyFlags) run(cmd *cobra.Command) error {
	ctx, stop := signals.Until(cmd.Context())
	defer stop()
	if v.untilEOF {
		ctx = untilEOF(ctx)
	}
	err := guardproxy.Run(ctx, v.o)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, guardproxy.ErrState), errors.Is(err, guardproxy.ErrListen):
		return exit.Failed(exit.CodeUnavailable, "%v", err)
	}
	return exit.Failed(exit.CodeOther, "%v", err)
}
