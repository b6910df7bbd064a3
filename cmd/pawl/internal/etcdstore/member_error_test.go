package etcdstore

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawlproject/pawl/internal/store/kvlog"
	"github.com/pawlproject/pawl/internal/testwait"
)

// What reaches the log reads like the rest of it, and is of the kind it was.
func TestMemberErrorText(t *testing.T) {
	for words, err := range map[string]error{
		"no answer in time from the etcd at a:1":                 status.Error(codes.DeadlineExceeded, "context deadline exceeded"),
		"etcd at a:1: error reading from server: EOF":            status.Error(codes.Unavailable, "error reading from server: EOF"),
		"etcd at a:1: etcdserver: no leader":                     rpctypes.ErrGRPCNoLeader,
		"etcd at a:1: etcdserver: mvcc: database space exceeded": rpctypes.ErrGRPCNoSpace,
		"no etcd answers at a:1: connection refused": status.Error(codes.Unavailable,
			`connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`),
		"look here": errors.New("look here"),
	} {
		got := describeError("a:1", err)
		if got.Error() != words || status.Code(got) != status.Code(err) || !errors.Is(etcdError(got), etcdError(err)) {
			t.Errorf("%v reads %q", err, got)
		}
	}
	for words, text := range map[string]string{
		"no TLS with the etcd at a:1: it asks for a client certificate, and none was shown (remote error: tls: certificate required)": "error reading server preface: remote error: tls: certificate required",
		"no TLS with the etcd at a:1: it does not speak TLS":                                                                          "transport: authentication handshake failed: tls: first record does not look like a TLS handshake",
	} {
		got := describeError("a:1", status.Error(codes.Unavailable, `connection error: desc = "`+text+`"`))
		if got.Error() != words || !aboutTLS(fmt.Errorf("look: %w", got)) {
			t.Errorf("%s reads %q", text, got)
		}
	}
	untrusted := status.Error(codes.Unavailable, `connection error: desc = "transport: authentication handshake failed: x509: unknown"`)
	if got := describeError("a:1", untrusted); !aboutTLS(got) {
		t.Errorf("%q is about TLS", got)
	}
	if describeError("a:1", nil) != nil {
		t.Error("nothing is told of")
	}
}

// The same of an etcd that is away, whatever was asked.
func TestUnreachableEtcdErrorText(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	m, err := dial([]string{address}, TLS{}, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.close() }() // nothing was sent
	words := fmt.Sprintf("read: no etcd answers at %s: connection refused", address)
	testwait.Until(t, time.Minute, "it is said", func() bool {
		_, err := kv{m}.Txn(t.Context(), kvlog.Txn{What: kvlog.WhatRead, Then: []kvlog.Op{{Key: "a"}}})
		return err != nil && err.Error() == words
	})
}
