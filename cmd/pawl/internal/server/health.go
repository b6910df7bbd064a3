package server

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
	"github.com/pawlproject/pawl/internal/infile"
)

// clockSource is where Linux tells what it reads the time from.
const clockSource = "/sys/devices/system/clocksource/clocksource0/current_clocksource"

// healthOf tells what the server knows of its machine and of its part of the store.
func healthOf(o Options, st *opened) *linkpb.Health {
	h := &linkpb.Health{Node: o.Quorum.Node, Insecure: o.Insecure, Certificates: certificatesOf(o)}
	if raw, err := os.ReadFile(clockSource); err == nil {
		h.ClockSource = string(bytes.TrimSpace(raw))
	}
	if st.health == nil {
		return h
	}
	s := st.health()
	h.FileSystem, h.Alarms = s.FileSystem, s.Alarms
	h.UsedBytes, h.FileBytes, h.QuotaBytes, h.DiskFreeBytes, h.History = s.Used, s.File, s.Quota, s.Free, s.History
	for _, e := range s.Endpoints {
		h.Endpoints = append(h.Endpoints, &linkpb.Endpoint{
			Address: e.Address, Failed: e.Failed, Leads: e.Leads, Learner: e.Learner, Applied: e.Applied, Version: e.Version, FileBytes: e.File,
		})
	}
	return h
}

// certificatesListed bounds how many certificates of one file are shown.
const certificatesListed = 16

// certificatesOf are those in the files that the server uses. A file that cannot be read
// is left out: whoever uses it says so.
func certificatesOf(o Options) (all []*linkpb.Certificate) {
	for _, f := range []struct{ use, path string }{
		{"certificate", o.Security.TLS.Cert},
		{"authority of clients", o.Security.TLS.ClientCA},
		{"certificate among peers", o.Quorum.TLS.Cert},
		{"authority of peers", o.Quorum.TLS.CA},
		{"certificate for etcd", o.Etcd.TLS.Cert},
		{"authority of etcd", o.Etcd.TLS.CA},
	} {
		if f.path == "" {
			continue
		}
		text, _, err := infile.Read(f.path, infile.BytesMax, o.Clock.Wall())
		if err != nil {
			continue
		}
		for range certificatesListed {
			var block *pem.Block
			if block, text = pem.Decode(text); block == nil {
				break
			}
			c, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				continue // a key, or what nobody uses
			}
			all = append(all, &linkpb.Certificate{
				Use: f.use, Path: f.path, Subject: c.Subject.String(), NotAfterUnix: c.NotAfter.UTC().Truncate(time.Second).Unix(),
			})
		}
	}
	return all
}
