package etcdflags

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/cmd/pawl/internal/flags"
	"github.com/pawlproject/pawl/cmd/pawl/internal/server"
	"github.com/pawlproject/pawl/internal/bearer"
)

// The alternative to --store-password-file. A password is never a flag: every user that
// lists processes would read it.
const (
	PasswordEnv     = "PAWL_STORE_PASSWORD"
	PasswordFileEnv = "PAWL_STORE_PASSWORD_FILE"
)

// Flags say how an etcd cluster that others run is reached.
type Flags struct {
	endpoints    []string
	prefix       string
	tls          etcdstore.TLS
	user         string
	passwordFile string
}

// Add adds the flags to a command.
func (v *Flags) Add(f *pflag.FlagSet) {
	f.StringSliceVar(&v.endpoints, "endpoints", nil, "members of the etcd cluster of --store etcd, comma separated: host:port, or with http:// or https://")
	f.StringVar(&v.prefix, "prefix", "/pawl/", "what every key in etcd begins with; the cell's name and '/' follow")
	f.StringVar(&v.tls.CA, "store-ca", "", "PEM file of the authority that signed the certificates of etcd")
	f.StringVar(&v.tls.Cert, "store-cert", "", "PEM file of the certificate to show to etcd")
	f.StringVar(&v.tls.Key, "store-key", "", "PEM file of that certificate's key")
	f.StringVar(&v.user, "store-user", "", "user of etcd")
	f.StringVar(&v.passwordFile, "store-password-file", "", "file with that user's password; $"+PasswordFileEnv+" or $"+PasswordEnv+" when absent")
}

// etcdFlagNames are the flags that make sense with --store etcd alone.
var etcdFlagNames = []string{"endpoints", "prefix", "store-ca", "store-cert", "store-key", "store-user", "store-password-file"}

// Validate checks what the flags say and makes a cluster of it.
func (v *Flags) Validate(cmd *cobra.Command, kind, cell string, insecure bool) (server.Etcd, error) {
	if kind != server.StoreEtcd {
		for _, name := range etcdFlagNames {
			if cmd.Flags().Changed(name) {
				return server.Etcd{}, exit.Usage(cmd, "--%s belongs to --store %s, and the store is %s", name, server.StoreEtcd, kind)
			}
		}
		return server.Etcd{}, nil
	}
	if len(v.endpoints) == 0 {
		return server.Etcd{}, exit.Usage(cmd, "--store %s needs --endpoints; expected host:port of each member, such as 127.0.0.1:2379", server.StoreEtcd)
	}
	if (v.tls.Cert == "") != (v.tls.Key == "") {
		return server.Etcd{}, exit.Usage(cmd, "--store-cert and --store-key belong together; expected both or neither")
	}
	if !strings.HasPrefix(v.prefix, "/") || !strings.HasSuffix(v.prefix, "/") || len(v.prefix) > etcdstore.PrefixMax {
		return server.Etcd{}, exit.Usage(cmd, "--prefix is %q; expected at most %d bytes that begin and end with '/', such as /pawl/", v.prefix, etcdstore.PrefixMax)
	}
	if err := v.checkEndpoints(insecure); err != nil {
		return server.Etcd{}, exit.Usage(cmd, "%v", err)
	}
	e := server.Etcd{Endpoints: v.endpoints, Prefix: v.prefix + cell + "/", TLS: v.tls, User: v.user}
	if v.user == "" {
		if v.passwordFile != "" {
			return server.Etcd{}, exit.Usage(cmd, "--store-password-file is given and no --store-user")
		}
		return e, nil
	}
	e.Password = v.password()
	if _, err := e.Password(); err != nil {
		return server.Etcd{}, exit.Usage(cmd, "%v", err)
	}
	return e, nil
}

func (v *Flags) checkEndpoints(insecure bool) error {
	var seen []string
	for _, text := range v.endpoints {
		address, secure, err := etcdstore.ParseEndpoint(text, v.tls != etcdstore.TLS{})
		switch {
		case err != nil:
			return fmt.Errorf("--endpoints: %w", err)
		case slices.Contains(seen, address):
			return fmt.Errorf("--endpoints names %s twice", address)
		case !secure && v.tls != etcdstore.TLS{}:
			return fmt.Errorf("--endpoints names %s without TLS, and --store-ca or --store-cert is given", text)
		case v.user != "" && !insecure && bearer.Exposed(address, secure) != nil:
			return fmt.Errorf("--store-user would send its password to %s in the clear: use https://, or --insecure where nobody listens", text)
		}
		seen = append(seen, address)
	}
	return nil
}

// password returns what reads the password: each time anew from a file, so that
// it can be changed there.
func (v *Flags) password() func() (string, error) {
	file := v.passwordFile
	if file == "" {
		file = os.Getenv(PasswordFileEnv)
	}
	if file == "" {
		word := os.Getenv(PasswordEnv)
		return func() (string, error) {
			if word == "" {
				return "", fmt.Errorf("--store-user needs a password: --store-password-file, $%s or $%s", PasswordFileEnv, PasswordEnv)
			}
			return word, nil
		}
	}
	return func() (string, error) {
		word, err := flags.ReadSecret(file)
		if err != nil {
			return "", fmt.Errorf("read the password of --store-user: %w", err)
		}
		return word, nil
	}
}
