package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlproject/pawl/internal/dialerr"
)

// durationFlag is a duration that knows whether it was given: an absent wait
// and one of zero differ.
type durationFlag struct {
	value time.Duration
	given bool
}

// String implements pflag.Value.
func (d *durationFlag) String() string {
	if d.value == 0 {
		return ""
	}
	return d.value.String()
}

// Set implements pflag.Value.
func (d *durationFlag) Set(s string) error {
	v, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf(`expected a number and a unit, such as "10s" or "1m30s"`)
	}
	d.value, d.given = v, true
	return nil
}

// Type implements pflag.Value.
func (d *durationFlag) Type() string { return "duration" }

// choiceFlag takes one of a few words.
type choiceFlag struct {
	value string
	of    []string
}

// String implements pflag.Value.
func (c *choiceFlag) String() string { return c.value }

// Set implements pflag.Value.
func (c *choiceFlag) Set(s string) error {
	for _, o := range c.of {
		if s == o {
			c.value = s
			return nil
		}
	}
	return fmt.Errorf("expected one of %s", strings.Join(c.of, ", "))
}

// Type implements pflag.Value.
func (c *choiceFlag) Type() string { return strings.Join(c.of, "|") }

// plainly is an error of a flag's value in words that are not Go's.
func plainly(err error) string {
	var n *strconv.NumError
	if !errors.As(err, &n) {
		return err.Error()
	}
	expected := "expected a whole number"
	switch {
	case n.Func == "ParseBool":
		expected = "expected true or false"
	case errors.Is(n, strconv.ErrRange):
		expected += ", and not such a large one"
	}
	return strings.TrimSuffix(err.Error(), n.Error()) + expected
}

const (
	serversEnv     = "PAWL_SERVERS"
	serversDefault = "127.0.0.1:7420"
)

// serversFlag adds --servers and the flags that say how servers are reached. The
// environment stands in for an absent flag.
func serversFlag(f *pflag.FlagSet) *[]string {
	connectionFlags(f)
	return f.StringSlice("servers", nil,
		"gRPC addresses of servers, comma separated; $"+serversEnv+" when absent (default "+serversDefault+")")
}

// serverList determines what --servers and the environment say.
func serverList(cmd *cobra.Command, flag []string) ([]string, error) {
	from, list := "--servers", flag
	if !cmd.Flags().Changed("servers") {
		if env := os.Getenv(serversEnv); env != "" {
			from, list = serversEnv, strings.Split(env, ",")
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
			return nil, usage(cmd, "%s names the server %q%s; expected host:port, such as %s", from, s, why, serversDefault)
		}
		servers = append(servers, s)
	}
	if len(servers) == 0 {
		return nil, usage(cmd, "%s names no server; expected host:port, such as %s", from, serversDefault)
	}
	return servers, nil
}

// hostLabel names this machine in lists of locks.
func hostLabel() string {
	h, err := os.Hostname()
	if err != nil {
		return ""
	}
	return h
}
