package client

import (
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/dialerr"
)

// ServersEnv stands in for an absent --servers.
const (
	ServersEnv     = "PAWL_SERVERS"
	serversDefault = "127.0.0.1:7420"
)

// AddFlags adds --servers and the flags that say how servers are reached. The
// environment stands in for an absent flag.
func AddFlags(f *pflag.FlagSet) *[]string {
	connectionFlags(f)
	return f.StringSlice("servers", nil,
		"gRPC addresses of servers, comma separated; $"+ServersEnv+" when absent (default "+serversDefault+")")
}

// serverList determines what --servers and the environment say.
func serverList(cmd *cobra.Command, flag []string) ([]string, error) {
	from, list := "--servers", flag
	if !cmd.Flags().Changed("servers") {
		if env := os.Getenv(ServersEnv); env != "" {
			from, list = ServersEnv, strings.Split(env, ",")
		} else {
			list = []string{serversDefault}
		}
	}
	servers := make([]string, 0, len(list))
	for _, s := range list {
		s = strings.TrimSpace(s)
		if err := dialerr.CheckAddress(s); err != nil {
			why := ""
			if host, _, bad := net.SplitHostPort(s); bad == nil && host != "" && dialerr.CheckHost(host) != nil {
				why = " (" + dialerr.CheckHost(host).Error() + ")"
			}
			return nil, exit.Usage(cmd, "%s names the server %q%s; expected host:port, such as %s", from, s, why, serversDefault)
		}
		servers = append(servers, s)
	}
	if len(servers) == 0 {
		return nil, exit.Usage(cmd, "%s names no server; expected host:port, such as %s", from, serversDefault)
	}
	return servers, nil
}

// HostLabel names this machine in lists of locks.
func HostLabel() string {
	h, err := os.Hostname()
	if err != nil {
		return ""
	}
	return h
}
