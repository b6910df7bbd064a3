package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdflags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/server"
	"github.com/pawlproject/pawl/cmd/pawl/internal/signals"
	"github.com/pawlproject/pawl/cmd/pawl/internal/systemd"
	"github.com/pawlproject/pawl/cmd/pawl/internal/tuning"
	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/store"
)

type serveFlags struct {
	o          server.Options
	insecure   bool
	untilEOF   bool
	config     string
	tokenFloor string
	activeTTL  flags.Duration
	store      flags.Choice
	etcd       etcdflags.Flags
	peers      peerFlags
	logFormat  flags.Choice
	logLevel   flags.Choice
}

func newServe() *cobra.Command {
	v := serveFlags{
		activeTTL: flags.Duration{Value: store.ActiveTTLDefault},
		store:     flags.Choice{Value: server.StoreEmbedded, Of: []string{server.StoreEmbedded, server.StoreEtcd, server.StoreMemory}},
		logFormat: flags.Choice{Value: "text", Of: []string{"text", "json"}},
		logLevel:  flags.Choice{Value: "info", Of: []string{"debug", "info", "warn", "error"}},
	}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a server",
		Long: `Serve runs a server of a cell. With its embedded store it needs nothing but a
folder. HUP, INT and TERM stop it cleanly: sessions and leases live on in the
folder and go on with the next start. Under nohup HUP does not.

With --store etcd the cell lives below a prefix of an etcd cluster that you run.
Then several servers may serve it: one is active, the others stand by and tell
clients whom to ask: at --advertise and --advertise-http of the active one. Each
has a data folder of its own, which holds its id.

With --node and --peers three or five servers keep the cell among themselves, with
nothing beside pawl: it goes on while a majority of them is up (docs/quorum.md).

With --tls-cert and --tls-key the link and the HTTP interface speak TLS. With
--auth-file nobody may do anything that the file does not allow, on the loopback
neither; callers prove who they are by a credential ("pawl auth new") or, with
--tls-client-ca, by a certificate. Where one of these or --audit-log is given, HUP
has the files read again instead of stopping the server. docs/security.md tells
what is protected and what is not.

Flags may stand in a YAML file, under their names (see --config); a flag on the
command line wins.

Exit codes: 0 stopped as asked, 64 invalid usage, 65 the cell's log is damaged
or shows less than it did, 69 it cannot serve (an address in use, a folder that
cannot be used, no room, an etcd that refuses it), 1 otherwise.`,
		Example: `  pawl serve
  pawl serve --data /var/lib/pawl --log-format json
  pawl serve --listen 127.0.0.1:8420 --http off
  pawl serve --store etcd --endpoints a:2379,b:2379,c:2379
  pawl serve --node n1 --peers n1=https://a:7422,n2=https://b:7422,n3=https://c:7422
  pawl serve --store memory                a server for tests that forgets all`,
		Args: flags.None,
	}
	f := cmd.Flags()
	f.StringVar(&v.o.Link, "listen", "127.0.0.1:7420", "address of the gRPC link, or \"off\"")
	f.StringVar(&v.o.HTTP, "http", "127.0.0.1:7421", "address of the HTTP interface, or \"off\"")
	f.StringVar(&v.o.AdvertiseLink, "advertise", "", "HOST or HOST:PORT of the link that clients are told; absent: that of --listen, or this host's name where it is every address")
	f.StringVar(&v.o.AdvertiseHTTP, "advertise-http", "", "the same for the HTTP interface; absent: the host of --advertise where others can reach --http, else as there")
	f.StringSliceVar(&v.o.HTTPHosts, "http-host", nil, "further host names that HTTP requests may be addressed to, beside those that are advertised and those of the certificate")
	f.StringVar(&v.o.Data, "data", "./pawl-data", "data folder: the embedded store, or with --store etcd this server's id")
	f.Var(&v.store, "store", "where the cell's log lives")
	v.etcd.Add(f)
	v.peers.add(f)
	f.StringVar(&v.o.Cell, "cell", "default", "name of the cell: 1 to 64 letters, digits, '.', '_', '-'")
	f.StringVar(&v.o.CellID, "cell-id", "", "id of the cell to go on with after its store was wiped")
	f.StringVar(&v.tokenFloor, "token-floor", "", "grant no token up to this one (after store_rolled_back)")
	f.Var(&v.activeTTL, "active-ttl", "how long a standby waits for a sign of life of the active server")
	f.StringVar(&v.o.Security.TLS.Cert, "tls-cert", "", "certificate, PEM, for the link and the HTTP interface")
	f.StringVar(&v.o.Security.TLS.Key, "tls-key", "", "its key, PEM")
	f.StringVar(&v.o.Security.TLS.ClientCA, "tls-client-ca", "", "authorities, PEM, of the certificates that clients may prove themselves by")
	f.StringVar(&v.o.Security.AuthFile, "auth-file", "", "YAML file that says who may do what")
	f.StringVar(&v.o.Security.AuditLog, "audit-log", "", "file that gets a line of JSON for all that is done and denied")
	f.BoolVar(&v.o.Security.AuditRequired, "audit-required", false, "grant nothing while the audit log cannot be written")
	f.BoolVar(&v.insecure, "insecure", false, "allow addresses that others can reach, without TLS and authentication")
	f.Var(&v.logFormat, "log-format", "format of the log on the standard error")
	f.Var(&v.logLevel, "log-level", "least level that is logged")
	f.StringVar(&v.o.Debug, "debug-listen", server.Off, "address of profiles (pprof), or \"off\"")
	f.StringVar(&v.config, "config", "", "YAML file with values for flags, by their names")
	f.BoolVar(&v.untilEOF, "until-eof", false, "stop when the standard input ends")
	_ = f.MarkHidden("until-eof") // fails for unknown names only
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if v.config != "" {
			if err := flags.ReadConfig(cmd, v.config); err != nil {
				return err
			}
		}
		if err := v.validate(cmd); err != nil {
			return err
		}
		return v.serve(cmd)
	}
	return cmd
}

var (
	cellName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)
	cellID   = regexp.MustCompile(`^(.+)-[0-9a-f]{16}$`)
)

// checkCell refuses what cannot name a cell.
func checkCell(cmd *cobra.Command, name string) error {
	if !cellName.MatchString(name) {
		return exit.Usage(cmd, "--cell is %q; expected 1 to 64 letters, digits, '.', '_' or '-'", name)
	}
	return nil
}

// closed says why others may not reach the address of flag; empty: they may.
func (v *serveFlags) closed(flag string) string {
	if v.insecure {
		return ""
	}
	if flag == "--debug-listen" {
		return "for profiles, which have neither TLS nor callers with a name,"
	}
	var lacks []string
	if !v.o.Security.TLS.On() {
		lacks = append(lacks, "TLS (--tls-cert, --tls-key)")
	}
	if v.o.Security.AuthFile == "" {
		lacks = append(lacks, "an auth file (--auth-file)")
	}
	if len(lacks) == 0 {
		return ""
	}
	return "without " + strings.Join(lacks, " and ")
}

// validate checks what the flags say and fills in what they are worth.
func (v *serveFlags) validate(cmd *cobra.Command) error {
	for flag, address := range map[string]string{"--listen": v.o.Link, "--http": v.o.HTTP, "--debug-listen": v.o.Debug} {
		if err := server.CheckAddress(flag, address, v.closed(flag)); err != nil {
			return exit.Usage(cmd, "%v", err)
		}
	}
	if err := v.o.Security.TLS.Check(); err != nil {
		return exit.Usage(cmd, "%v", err)
	}
	if v.o.Security.AuditRequired && v.o.Security.AuditLog == "" {
		return exit.Usage(cmd, "--audit-required is given without --audit-log; expected the file, too")
	}
	for flag, told := range map[string][2]string{"--advertise": {v.o.AdvertiseLink, v.o.Link}, "--advertise-http": {v.o.AdvertiseHTTP, v.o.HTTP}} {
		if err := server.CheckAdvertised(flag, told[0], told[1]); err != nil {
			return exit.Usage(cmd, "%v", err)
		}
	}
	if v.o.Link == v.o.HTTP && v.o.Link != server.Off && !strings.HasSuffix(v.o.Link, ":0") {
		return exit.Usage(cmd, "--listen and --http are both %s; expected an address for each", v.o.Link)
	}
	if v.o.Link == server.Off && v.o.HTTP == server.Off {
		return exit.Usage(cmd, "--listen and --http are both off; expected an address for one of them")
	}
	if err := checkCell(cmd, v.o.Cell); err != nil {
		return err
	}
	if id := v.o.CellID; id != "" {
		m := cellID.FindStringSubmatch(id)
		if m == nil || !cellName.MatchString(m[1]) {
			return exit.Usage(cmd, "--cell-id is %q; expected a name, '-' and 16 hex digits, such as default-9f86d081884c7d65", id)
		}
		if cmd.Flags().Changed("cell") && m[1] != v.o.Cell {
			return exit.Usage(cmd, "--cell is %q and --cell-id is of a cell %q; expected the same name", v.o.Cell, m[1])
		}
		v.o.Cell = m[1]
	}
	if v.tokenFloor != "" {
		t, err := guard.ParseToken(v.tokenFloor)
		if err != nil {
			return exit.Usage(cmd, "--token-floor is %q; expected a number from 1 to 2^53-1", v.tokenFloor)
		}
		v.o.TokenFloor = t
	}
	if d := v.activeTTL.Value; d < 500*time.Millisecond || d > time.Minute {
		return exit.Usage(cmd, "--active-ttl is %v; expected 500ms to 1m", d)
	}
	v.o.ActiveTTL = v.activeTTL.Value
	v.o.Store = v.store.Value
	var err error
	if v.o.Etcd, err = v.etcd.Validate(cmd, v.o.Store, v.o.Cell, v.insecure); err != nil {
		return err
	}
	if v.o.Quorum, err = v.peers.validate(cmd, v.o.Store, v.insecure); err != nil {
		return err
	}
	if v.o.Quorum.Node != "" {
		v.o.Store = server.StoreQuorum
	}
	v.o.Version, v.o.Released, v.o.Insecure = versionText(), released, v.insecure
	v.o.Clock = clock.System()
	v.o.Logger = newLogger(cmd.ErrOrStderr(), v.logFormat.Value, v.logLevel.Value)
	service := os.Getenv("NOTIFY_SOCKET")
	v.o.Begun = func() { v.notify(service, "READY=1") }
	v.o.Ending = func() { v.notify(service, "STOPPING=1") }
	return nil
}

func newLogger(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	_ = least.UnmarshalText([]byte(level)) // one of our own words
	o := &slog.HandlerOptions{Level: least}
	if format == "json" {
		o.ReplaceAttr = spelled
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// spelled writes a duration as Go does, as all other JSON of ours has it, instead of
// as a number without a unit.
func spelled(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

func (v *serveFlags) serve(cmd *cobra.Command) error {
	ending := []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM}
	if v.o.Security.Reloads() {
		// A hang-up asks for files to be read again then, and ends nothing.
		ending = ending[1:]
	}
	ctx, stop := signals.Until(cmd.Context(), ending...)
	defer stop()
	if v.o.Security.Reloads() {
		v.o.Security.Reload = signals.Each(ctx, syscall.SIGHUP)
	}
	if v.untilEOF {
		ctx = untilEOF(ctx)
	}
	go tuning.PaceHeap(ctx, v.o.Clock)
	err := server.Run(ctx, v.o)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrDamaged), errors.Is(err, store.ErrRolledBack):
		return exit.Failed(exit.CodeData, "%v", err)
	case errors.Is(err, etcdstore.ErrInUse), errors.Is(err, server.ErrFolder):
		return exit.Failed(exit.CodeUnavailable, "%v; --data names another folder", err)
	case errors.Is(err, server.ErrAddress), errors.Is(err, server.ErrSecurity), errors.Is(err, store.ErrFull), errors.Is(err, server.ErrClock),
		errors.Is(err, etcdstore.ErrRefused), errors.Is(err, etcdstore.ErrRequestLimit), errors.Is(err, etcdstore.ErrFiles), errors.Is(err, etcdstore.ErrPeers), errors.Is(err, etcdstore.ErrNotAlone), errors.As(err, new(*net.OpError)):
		return exit.Failed(exit.CodeUnavailable, "%v", err)
	}
	return exit.Failed(exit.CodeOther, "%v", err)
}

// untilEOF is ctx, which also ends when the standard input does.
func untilEOF(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // an error ends it as well
		cancel()
	}()
	return ctx
}

// notify tells the service manager that started the server how it is.
func (v *serveFlags) notify(socket, state string) {
	if err := systemd.Notify(socket, state, v.o.Clock); err != nil {
		v.o.Logger.Warn("the service manager could not be told", "state", state, "error", err)
	}
}
