package pawl

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"

	"github.com/pawlproject/pawl/internal/authority"
	"github.com/pawlproject/pawl/internal/bearer"
)

// Credential is the secret that a client proves itself by, as "pawl auth new"
// prints it. However it is printed, logged or marshalled it shows as "[secret]".
type Credential string

const shownSecret = "[secret]"

// Format implements fmt.Formatter.
func (Credential) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, shownSecret) }

// String implements fmt.Stringer.
func (Credential) String() string { return shownSecret }

// LogValue implements slog.LogValuer.
func (Credential) LogValue() slog.Value { return slog.StringValue(shownSecret) }

// MarshalText implements encoding.TextMarshaler.
func (Credential) MarshalText() ([]byte, error) { return []byte(shownSecret), nil }

// secretSource returns the credential for one connection.
type secretSource func() (string, error)

// secret says where the client's credential comes from; nil: it has none.
func (o *Options) secret() (secretSource, error) {
	var read secretSource
	switch {
	case o.Credential != "" && o.CredentialFile != "":
		return nil, fmt.Errorf("%w: both Credential and CredentialFile are set; one of them was expected", ErrInvalid)
	case o.Credential != "":
		secret := string(o.Credential)
		read = func() (string, error) { return secret, bearer.Check(secret) }
	case o.CredentialFile != "":
		path := o.CredentialFile
		read = func() (string, error) { return bearer.Read(path) }
	default:
		return nil, nil
	}
	if _, err := read(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return read, nil
}

// LoadTLS makes a configuration for Options.TLS from PEM files. ca holds the
// authorities that sign servers' certificates; if it is empty, those of the system are
// used. cert and key are the client's certificate and its key, if the client has one.
//
// A Client reads all three again for every connection, so they can be replaced while it
// runs. If the file of authorities cannot be used, those read last stay in force. Other
// users of the configuration read cert and key again, but not ca.
func LoadTLS(ca, cert, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		pool, err := authority.Load(ca)
		if err != nil {
			return nil, fmt.Errorf("pawl: %w: authorities: %w", ErrInvalid, err)
		}
		c.RootCAs = pool
	}
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("pawl: %w: a certificate and its key belong together; both were expected", ErrInvalid)
	}
	if cert == "" {
		return c, nil
	}
	load := func() (*tls.Certificate, error) {
		pair, err := authority.Pair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", cert, key, err)
		}
		return pair, nil
	}
	if _, err := load(); err != nil {
		return nil, fmt.Errorf("pawl: %w: %w", ErrInvalid, err)
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return c, nil
}
