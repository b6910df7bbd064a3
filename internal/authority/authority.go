package authority

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"weak"

	"google.golang.org/grpc/credentials"
)

// file is a file with authorities, as it was read last.
type file struct {
	path string

	mu   sync.Mutex
	text []byte
	pool *x509.CertPool // nil: the one that Load returned
}

// files are those whose pools are in use, by their pools: a tls.Config has no room
// for more than a pool, and a pool none for where it comes from.
var files sync.Map // weak.Pointer[x509.CertPool] to *file

// Load reads the certificates of a PEM file. It fails when the file cannot be read
// or holds none.
func Load(path string) (*x509.CertPool, error) {
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("no certificate in %s", path)
	}
	key := weak.Make(pool)
	files.Store(key, &file{path: path, text: text})
	runtime.AddCleanup(pool, func(key weak.Pointer[x509.CertPool]) { files.Delete(key) }, key)
	return pool, nil
}

// bytesMax bounds a file: what has no end in its place must not take all memory of a
// client that stays, which reads it for every connection.
const bytesMax = 8 << 20

// Read reads a file of PEM.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, bytesMax+1))
	if err == nil && len(text) > bytesMax {
		err = fmt.Errorf("%s has more than %d bytes", path, bytesMax)
	}
	return text, err
}

// Fresh returns config with the authorities that its file holds now: a copy, or
// config itself when RootCAs is no pool of Load, or the file is as Load read it.
func Fresh(config *tls.Config) *tls.Config {
	if config == nil || config.RootCAs == nil {
		return config
	}
	f, ok := files.Load(weak.Make(config.RootCAs))
	if !ok {
		return config
	}
	pool := f.(*file).read()
	if pool == nil {
		return config
	}
	config = config.Clone()
	config.RootCAs = pool
	return config
}

// read returns the pool of the file as it is now, or as it could be read last.
func (f *file) read() *x509.CertPool {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := Read(f.path)
	if err != nil || bytes.Equal(text, f.text) {
		return f.pool
	}
	if pool := x509.NewCertPool(); pool.AppendCertsFromPEM(text) {
		f.text, f.pool = text, pool
	}
	return f.pool
}

// Credentials are gRPC's for TLS, with Fresh authorities for every connection.
func Credentials(config *tls.Config) credentials.TransportCredentials {
	return &fresh{credentials.NewTLS(config), config}
}

type fresh struct {
	credentials.TransportCredentials
	config *tls.Config
}

// ClientHandshake implements credentials.TransportCredentials.
func (f *fresh) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(Fresh(f.config)).ClientHandshake(ctx, authority, raw)
}

// Clone implements credentials.TransportCredentials.
func (f *fresh) Clone() credentials.TransportCredentials { return Credentials(f.config) }
