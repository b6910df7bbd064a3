package client

import (
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
	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/bearer"
)

// The variables that stand in for absent flags, and what is added to the names of those
// that hold the path of a file.
const (
	CAEnv         = "PAWL_CA"
	CertEnv       = "PAWL_CERT"
	KeyEnv        = "PAWL_KEY"
	CredentialEnv = "PAWL_CREDENTIAL"
	FileSuffix    = "_FILE"
)

// connectionFlags adds those that say how servers are reached. There is none whose
// value is a secret: everybody can read a command line.
func connectionFlags(f *pflag.FlagSet) {
	f.String("ca", "", "PEM file with the authorities that servers are verified with, which means TLS; \"system\": those of this machine; $"+CAEnv+" when absent")
	f.String("cert", "", "PEM file with the certificate to prove oneself by; $"+CertEnv+" when absent")
	f.String("key", "", "PEM file with its key; $"+KeyEnv+" when absent")
	f.String("credential-file", "", "file with the credential to prove oneself by; $"+CredentialEnv+FileSuffix+" or $"+CredentialEnv+" when absent")
}

// Target is the servers of a cell and how they are reached.
type Target struct {
	servers []string
	How     Connection
}

// TargetOf determines what flags and environment say.
func TargetOf(cmd *cobra.Command, flag []string) (t Target, err error) {
	if t.servers, err = serverList(cmd, flag); err != nil {
		return t, err
	}
	t.How, err = connectionOf(cmd)
	return t, err
}

// Client returns one that asks the target, and dials when it is first used.
func (t Target) Client() *Client {
	return &Client{Target: t, conns: map[string]*grpc.ClientConn{}, slow: map[string]int{}}
}

// Connection is how servers are reached.
type Connection struct {
	TLS *tls.Config
	// Credential is the secret as it was read last; from a file if
	// credentialFile is not empty.
	Credential     string
	credentialFile string
}

// reread takes in what the file with the credential holds now, and reports whether
// that is another one. A file that cannot be used leaves what was read last.
func (c *Connection) reread() bool {
	if c.credentialFile == "" {
		return false
	}
	secret, err := bearer.Read(c.credentialFile)
	if err != nil || secret == c.Credential {
		return false
	}
	c.Credential = secret
	return true
}

// Format keeps the credential out of whatever prints it.
func (c Connection) Format(s fmt.State, _ rune) { fmt.Fprintf(s, "connection (TLS %t)", c.TLS != nil) }

// secrets are the credential and the key that were in the environment.
var secrets struct{ credential, key string }

// TakeSecrets removes the secrets from the environment and keeps them. It is called
// before anything is started that would inherit them.
func TakeSecrets() {
	if s := os.Getenv(CredentialEnv); s != "" {
		secrets.credential = s
		_ = os.Unsetenv(CredentialEnv) // fails for malformed names only
	}
	if s := os.Getenv(KeyEnv); s != "" {
		if secrets.key = s; inline(s) {
			_ = os.Unsetenv(KeyEnv)
		}
	}
}

// connectionOf determines what flags and environment say of the connection.
func connectionOf(cmd *cobra.Command) (c Connection, err error) {
	TakeSecrets()
	ca, err := pick(cmd, "ca", CAEnv, os.Getenv(CAEnv))
	if err != nil {
		return c, err
	}
	cert, err := pick(cmd, "cert", CertEnv, os.Getenv(CertEnv))
	if err != nil {
		return c, err
	}
	key, err := pick(cmd, "key", KeyEnv, secrets.key)
	if err != nil {
		return c, err
	}
	if c.TLS, err = tlsOf(ca, cert, key); err != nil {
		return c, exit.Usage(cmd, "%v", err)
	}
	if err := c.prove(cmd, secrets.credential); err != nil {
		return c, err
	}
	return c, nil
}

// prove finds the credential.
func (c *Connection) prove(cmd *cobra.Command, secret string) error {
	from, path := "--credential-file", cmd.Flags().Lookup("credential-file").Value.String()
	if path == "" {
		from, path = CredentialEnv+FileSuffix, os.Getenv(CredentialEnv+FileSuffix)
		if path != "" && secret != "" {
			return exit.Usage(cmd, "both %s and %s are set; expected one of them", CredentialEnv, CredentialEnv+FileSuffix)
		}
	}
	if path == "" {
		if secret == "" {
			return nil
		}
		if err := bearer.Check(secret); err != nil {
			return exit.Usage(cmd, "%s: %v", CredentialEnv, err)
		}
		c.Credential = secret
		return nil
	}
	var err error
	c.credentialFile = path
	if c.Credential, err = bearer.Read(path); err != nil {
		return exit.Usage(cmd, "%s: %v", from, err)
	}
	return nil
}

// inline reports whether a variable holds PEM itself, and not the path of it.
func inline(s string) bool { return strings.HasPrefix(strings.TrimSpace(s), "-----BEGIN") }

// pick chooses among a flag, a variable and its twin with a path.
func pick(cmd *cobra.Command, flag, env, value string) (string, error) {
	if v := cmd.Flags().Lookup(flag).Value.String(); v != "" {
		return v, nil
	}
	path := os.Getenv(env + FileSuffix)
	if path != "" && value != "" {
		return "", exit.Usage(cmd, "both %s and %s are set; expected one of them", env, env+FileSuffix)
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
			return nil, fmt.Errorf("--ca, or %s: %s", CAEnv, why)
		}
		return nil, fmt.Errorf("--cert with --key, or %s with %s: %s", CertEnv, KeyEnv, text)
	}
	if inline(ca) {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(ca)) {
			return nil, fmt.Errorf("%s holds no certificate", CAEnv)
		}
	}
	if paths[0] == "" && cert != "" {
		if !inline(cert) || !inline(key) {
			return nil, fmt.Errorf("of %s and %s one is PEM and one a path; expected both in one form", CertEnv, KeyEnv)
		}
		pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
		if err != nil {
			return nil, fmt.Errorf("%s with %s: %w", CertEnv, KeyEnv, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
