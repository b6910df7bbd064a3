package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/pawlproject/pawl"
	"github.com/pawlproject/pawl/internal/bearer"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/infile"
)

const (
	caEnv         = "PAWL_CA"
	certEnv       = "PAWL_CERT"
	keyEnv        = "PAWL_KEY"
	credentialEnv = "PAWL_CREDENTIAL"
	fileSuffix    = "_FILE"
)

// connectionFlags adds those that say how servers are reached. There is none whose
// value is a secret: everybody can read a command line.
func connectionFlags(f *pflag.FlagSet) {
	f.String("ca", "", "PEM file with the authorities that servers are verified with, which means TLS; \"system\": those of this machine; $"+caEnv+" when absent")
	f.String("cert", "", "PEM file with the certificate to prove oneself by; $"+certEnv+" when absent")
	f.String("key", "", "PEM file with its key; $"+keyEnv+" when absent")
	f.String("credential-file", "", "file with the credential to prove oneself by; $"+credentialEnv+fileSuffix+" or $"+credentialEnv+" when absent")
}

// target is the servers of a cell and how they are reached.
type target struct {
	servers []string
	how     connection
}

// targetOf determines what flags and environment say.
func targetOf(cmd *cobra.Command, flag []string) (t target, err error) {
	if t.servers, err = serverList(cmd, flag); err != nil {
		return t, err
	}
	t.how, err = connectionOf(cmd)
	return t, err
}

func (t target) client() *client {
	return &client{target: t, conns: map[string]*grpc.ClientConn{}, slow: map[string]int{}}
}

// dial is the SDK's.
func (t target) dial(ctx context.Context, o pawl.Options) (*pawl.Client, error) {
	o.TLS, o.CredentialFile = t.how.tls, t.how.credentialFile
	if o.CredentialFile == "" {
		o.Credential = pawl.Credential(t.how.credential)
	}
	return pawl.Dial(ctx, t.servers, o)
}

// connection is how servers are reached.
type connection struct {
	tls *tls.Config
	// credential is the secret as it was read last; from a file if
	// credentialFile is not empty.
	credential     string
	credentialFile string
}

// reread takes in what the file with the credential holds now, and reports whether
// that is another one. A file that cannot be used leaves what was read last.
func (c *connection) reread() bool {
	if c.credentialFile == "" {
		return false
	}
	secret, err := bearer.Read(c.credentialFile)
	if err != nil || secret == c.credential {
		return false
	}
	c.credential = secret
	return true
}

// Format keeps the credential out of whatever prints it.
func (c connection) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "connection (TLS %t)", c.tls != nil) }

// secrets are those that stood in the environment.
var secrets struct{ credential, key string }

// takeSecrets takes them out of it, before anything is started that would inherit
// them.
func takeSecrets() {
	if s := os.Getenv(credentialEnv); s != "" {
		secrets.credential = s
		_ = os.Unsetenv(credentialEnv) // fails for malformed names only
	}
	if s := os.Getenv(keyEnv); s != "" {
		if secrets.key = s; inline(s) {
			_ = os.Unsetenv(keyEnv)
		}
	}
}

// connectionOf determines what flags and environment say of the connection.
func connectionOf(cmd *cobra.Command) (c connection, err error) {
	takeSecrets()
	ca, err := pick(cmd, "ca", caEnv, os.Getenv(caEnv))
	if err != nil {
		return c, err
	}
	cert, err := pick(cmd, "cert", certEnv, os.Getenv(certEnv))
	if err != nil {
		return c, err
	}
	key, err := pick(cmd, "key", keyEnv, secrets.key)
	if err != nil {
		return c, err
	}
	if c.tls, err = tlsOf(ca, cert, key); err != nil {
		return c, usage(cmd, "%v", err)
	}
	if err := c.prove(cmd, secrets.credential); err != nil {
		return c, err
	}
	return c, nil
}

// prove finds the credential.
func (c *connection) prove(cmd *cobra.Command, secret string) error {
	from, path := "--credential-file", cmd.Flags().Lookup("credential-file").Value.String()
	if path == "" {
		from, path = credentialEnv+fileSuffix, os.Getenv(credentialEnv+fileSuffix)
		if path != "" && secret != "" {
			return usage(cmd, "both %s and %s are set; expected one of them", credentialEnv, credentialEnv+fileSuffix)
		}
	}
	if path == "" {
		if secret == "" {
			return nil
		}
		if err := bearer.Check(secret); err != nil {
			return usage(cmd, "%s: %v", credentialEnv, err)
		}
		c.credential = secret
		return nil
	}
	var err error
	c.credentialFile = path
	if c.credential, err = bearer.Read(path); err != nil {
		return usage(cmd, "%s: %v", from, err)
	}
	return nil
}

// secretMax bounds a file that holds a secret, in bytes.
const secretMax = 64 << 10

// readSecret reads a file that holds one secret and nothing else, but for the end
// of the line.
func readSecret(path string) (string, error) {
	raw, _, err := infile.Read(path, secretMax, clock.System().Wall())
	if err != nil {
		return "", err
	}
	text := strings.TrimRight(string(raw), "\r\n")
	if text == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return text, nil
}

// inline reports whether a variable holds PEM itself, and not the path of it.
func inline(s string) bool { return strings.HasPrefix(strings.TrimSpace(s), "-----BEGIN") }

// pick chooses among a flag, a variable and its twin with a path.
func pick(cmd *cobra.Command, flag, env, value string) (string, error) {
	if v := cmd.Flags().Lookup(flag).Value.String(); v != "" {
		return v, nil
	}
	path := os.Getenv(env + fileSuffix)
	if path != "" && value != "" {
		return "", usage(cmd, "both %s and %s are set; expected one of them", env, env+fileSuffix)
	}
	if path != "" {
		return path, nil
	}
	return value, nil
}

// tlsOf makes a configuration of paths or texts; nil: none of them is given.
func tlsOf(ca, cert, key string) (*tls.Config, error) {
	if ca == "" && cert == "" && key == "" {
		return nil, nil
	}
	if (cert == "") != (key == "") {
		return nil, errors.New("--cert and --key belong together; expected both")
	}
	if ca == "" {
		return nil, errors.New("--cert is given without --ca; expected the authorities that servers are verified with, or \"system\"")
	}
	files := ca
	if ca == "system" || inline(ca) {
		files = ""
	}
	paths := [2]string{cert, key}
	if inline(cert) || inline(key) {
		paths = [2]string{}
	}
	config, err := pawl.LoadTLS(files, paths[0], paths[1])
	if err != nil {
		// The words are the SDK's, but for what is called otherwise here.
		text := strings.TrimPrefix(err.Error(), "pawl: "+pawl.ErrInvalid.Error()+": ")
		if why, ok := strings.CutPrefix(text, "authorities: "); ok {
			return nil, fmt.Errorf("--ca, or %s: %s", caEnv, why)
		}
		return nil, fmt.Errorf("--cert with --key, or %s with %s: %s", certEnv, keyEnv, text)
	}
	if inline(ca) {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, fmt.Errorf("%s holds no certificate", caEnv)
		}
	}
	if paths[0] == "" && cert != "" {
		if !inline(cert) || !inline(key) {
			return nil, fmt.Errorf("of %s and %s one is PEM and one a path; expected both in one form", certEnv, keyEnv)
		}
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			return nil, fmt.Errorf("%s with %s: %w", certEnv, keyEnv, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
