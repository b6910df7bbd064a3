package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// secret is somebody's credential.
func secret(of string) string { return credentialMark + of + strings.Repeat("-", CredentialMin) }

func with(of string) Proof { return Proof{Authorization: []string{"Bearer " + secret(of)}} }

func policy(t testing.TB, entries ...Entry) *Policy {
	t.Helper()
	p, err := NewPolicy(entries...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func entry(name string, limits Limits, grants ...Grant) Entry {
	return Entry{
		Identity:     NewIdentity(name, limits, grants...),
		Credentials:  []Digest{DigestOf(secret(name))},
		Certificates: []string{"dns:" + name + ".example", "cn:" + name},
	}
}

func TestAdmission(t *testing.T) {
	g := NewGate(policy(t, entry("a", Limits{}), entry("b", Limits{})))
	short := "Bearer " + strings.Repeat("x", CredentialMin-1)
	for name, c := range map[string]struct {
		values   []string
		expected error
	}{
		"a":                   {[]string{"Bearer " + secret("a")}, nil},
		"another case":        {[]string{"bearer " + secret("a")}, nil},
		"nothing":             {nil, ErrNoProof},
		"nobody's":            {[]string{"Bearer " + secret("c")}, ErrUnknown},
		"twice":               {[]string{"Bearer " + secret("a"), "Bearer " + secret("b")}, ErrUnknown},
		"another scheme":      {[]string{"Basic " + secret("a")}, ErrUnknown},
		"without a scheme":    {[]string{secret("a")}, ErrUnknown},
		"empty":               {[]string{""}, ErrUnknown},
		"a blank behind it":   {[]string{"Bearer " + secret("a") + " "}, ErrUnknown},
		"a blank before it":   {[]string{"Bearer  " + secret("a")}, ErrUnknown},
		"too short":           {[]string{short}, ErrUnknown},
		"the hash":            {[]string{"Bearer " + DigestOf(secret("a")).String()}, ErrUnknown},
		"too long":            {[]string{"Bearer " + strings.Repeat("x", CredentialMax+1)}, ErrUnknown},
		"a control character": {[]string{"Bearer " + secret("a") + "\x00"}, ErrUnknown},
	} {
		caller, err := g.Admit(Proof{Authorization: c.values})
		if !errors.Is(err, c.expected) || (err == nil) != (c.expected == nil) {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && caller.Identity().Name() != "a" {
			t.Errorf("%s is %q", name, caller.Identity().Name())
		}
		if err != nil && strings.Contains(err.Error(), credentialMark) {
			t.Errorf("%s: the error repeats what was presented: %v", name, err)
		}
	}
}

func certificate(cn string, dns ...string) []*x509.Certificate {
	return []*x509.Certificate{{Subject: pkix.Name{CommonName: cn}, DNSNames: dns}}
}

func TestCertificates(t *testing.T) {
	g := NewGate(policy(t, entry("a", Limits{}), entry("b", Limits{})))
	for name, c := range map[string]struct {
		chain    []*x509.Certificate
		expected string
	}{
		"by its alternative name":   {certificate("", "a.example"), "a"},
		"by its common name":        {certificate("b"), "b"},
		"by both":                   {certificate("a", "a.example", "x.example"), "a"},
		"of nobody":                 {certificate("c", "c.example"), ""},
		"of two":                    {certificate("a", "b.example"), ""},
		"without a name":            {certificate(""), ""},
		"the kind is part of it":    {certificate("a.example"), ""},
		"a kind in the common name": {certificate("dns:a.example"), ""},
	} {
		caller, err := g.Admit(Proof{Chain: c.chain})
		switch {
		case c.expected == "" && !errors.Is(err, ErrUnknown):
			t.Errorf("%s: %v", name, err)
		case c.expected != "" && (err != nil || caller.Identity().Name() != c.expected):
			t.Errorf("%s: %v", name, err)
		}
	}
	// A credential that is nobody's is not mended by a certificate.
	if _, err := g.Admit(Proof{Authorization: with("c").Authorization, Chain: certificate("a")}); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown credential with a good certificate: %v", err)
	}
	u, _ := url.Parse("spiffe://x/y")
	all := certificateNames(&x509.Certificate{
		Subject: pkix.Name{CommonName: "n"}, DNSNames: []string{"d"}, URIs: []*url.URL{u}, EmailAddresses: []string{"e"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)},
	})
	if want := []string{"dns:d", "uri:spiffe://x/y", "email:e", "ip:10.0.0.1", "cn:n"}; !slices.Equal(all, want) {
		t.Errorf("names are %q", all)
	}
	for _, n := range all {
		if err := CheckCertificateName(n); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []string{"", "a", "dns:", ":a", "host:a", "ip:a"} {
		if CheckCertificateName(n) == nil {
			t.Errorf("%q passes for the name of a certificate", n)
		}
	}
}

func TestRemovedAuthorityAdmitsNoOne(t *testing.T) {
	g := NewGate(policy(t, entry("a", Limits{})))
	by, err := g.Admit(Proof{Chain: certificate("a")})
	if err != nil {
		t.Fatal(err)
	}
	put := make(chan error, 1)
	if _, err := g.Register(by, true, func(why error) { put <- why }); err != nil {
		t.Fatal(err)
	}
	if n := g.Recheck(func(*x509.Certificate, []*x509.Certificate) error { return errors.New("no") }); n != 1 {
		t.Errorf("%d were put out", n)
	}
	if why := <-put; !errors.Is(why, ErrRevoked) {
		t.Errorf("put out for %v", why)
	}
	if _, err := g.Admit(Proof{Chain: certificate("a")}); !errors.Is(err, ErrUnknown) {
		t.Errorf("by a certificate that no authority stands for: %v", err)
	}
	if _, err := g.Admit(with("a")); err != nil {
		t.Errorf("by a credential: %v", err)
	}
}

func TestTwoCredentialsAreRefused(t *testing.T) {
	one := entry("a", Limits{})
	for name, other := range map[string]Entry{
		"the name":        {Identity: NewIdentity("a", Limits{})},
		"no name":         {Identity: NewIdentity("", Limits{})},
		"the credential":  {Identity: NewIdentity("b", Limits{}), Credentials: one.Credentials},
		"the certificate": {Identity: NewIdentity("b", Limits{}), Certificates: []string{"cn:a"}},
	} {
		if _, err := NewPolicy(one, other); err == nil {
			t.Errorf("%s twice passes", name)
		}
	}
}

// Set evicts callers whose rights changed, and no others.
func TestSetEvictsChangedCallersOnly(t *testing.T) {
	read, hold := Grant{"x/", []Right{Read}}, Grant{"x/", []Right{Hold}}
	g := NewGate(policy(t, entry("same", Limits{}, read), entry("less", Limits{}, read, hold), entry("gone", Limits{}, read), entry("newkey", Limits{}, read)))
	put := map[string]error{}
	callers := map[string]*Caller{}
	for _, name := range []string{"same", "less", "gone", "newkey"} {
		c, err := g.Admit(with(name))
		if err != nil {
			t.Fatal(err)
		}
		callers[name] = c
		if _, err := g.Register(c, true, func(why error) { put[name] = why }); err != nil {
			t.Fatal(err)
		}
	}
	key := entry("newkey", Limits{}, read)
	key.Credentials = []Digest{DigestOf(secret("another"))}
	g.Set(policy(t, entry("same", Limits{Streams: 9}, read), entry("less", Limits{}, read), key))
	for name, expected := range map[string]error{"same": nil, "less": ErrChanged, "gone": ErrRevoked, "newkey": ErrRevoked} {
		if !errors.Is(put[name], expected) || (put[name] == nil) != (expected == nil) {
			t.Errorf("%s: %v", name, put[name])
		}
	}
	if callers["gone"].Identity() != nil || callers["newkey"].Identity() != nil {
		t.Error("somebody who is gone is somebody")
	}
	if callers["less"].Identity().Allow(Hold, "x/1") {
		t.Error("a right that is gone is a right")
	}
	if g.Streams() != 1 {
		t.Errorf("%d streams are left", g.Streams())
	}
	if _, err := g.Register(callers["gone"], false, nil); !errors.Is(err, ErrRevoked) {
		t.Errorf("somebody who is gone enters: %v", err)
	}
	if g.Set(nil); g.Open() {
		t.Error("a gate with a policy was opened")
	}
}

func TestStreamsAreCounted(t *testing.T) {
	g := NewGate(policy(t, entry("a", Limits{Streams: 2}), entry("b", Limits{})))
	enter := func(name string) (*Admission, error) {
		c, err := g.Admit(with(name))
		if err != nil {
			t.Fatal(err)
		}
		return g.Register(c, true, func(error) {})
	}
	first, err := enter("a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enter("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := enter("a"); !errors.Is(err, ErrTooMany) {
		t.Errorf("a third stream of two: %v", err)
	}
	if _, err := enter("b"); err != nil {
		t.Errorf("another identity pays for it: %v", err)
	}
	first.End()
	first.End()
	if g.Streams() != 2 {
		t.Errorf("%d streams are left", g.Streams())
	}
	if _, err := enter("a"); err != nil {
		t.Errorf("after one has left: %v", err)
	}
}

func TestOpenGateAllowsEverything(t *testing.T) {
	g := NewGate(nil)
	c, err := g.Admit(Proof{Authorization: []string{"whatever"}})
	if err != nil || c.Identity().Name() != "" || !c.Identity().Everywhere(Admin) || !c.Identity().Allow(Hold, "x") {
		t.Errorf("%v, %v", c, err)
	}
}

func TestCredentialsAreRandom(t *testing.T) {
	a, b := NewCredential(), NewCredential()
	if a == b || CheckCredential(a) != nil || len(a) < 43 {
		t.Errorf("drawn: %d characters, %v", len(a), CheckCredential(a))
	}
	d := DigestOf(a)
	if got, err := ParseDigest(d.String()); err != nil || got != d {
		t.Errorf("%v: %v", got, err)
	}
	for _, s := range []string{"", a, "sha256:", "sha256:" + strings.Repeat("g", 64), "md5:" + strings.Repeat("0", 64), fmt.Sprintf("%x", d[:])} {
		if _, err := ParseDigest(s); err == nil || strings.Contains(err.Error(), a) {
			t.Errorf("%.10q: %v", s, err)
		}
	}
}

// A connection may live longer than the certificate it began with, or than one above
// it.
func TestExpiredChainEndsAdmission(t *testing.T) {
	g := NewGate(policy(t, entry("a", Limits{})))
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	chain := certificate("a")
	chain[0].NotBefore, chain[0].NotAfter = begin, begin.Add(2*time.Hour)
	chain = append(chain, &x509.Certificate{NotBefore: begin, NotAfter: begin.Add(time.Hour)})
	for _, c := range []struct {
		at       time.Duration
		expected error
		left     time.Duration
	}{{-time.Second, ErrExpired, 0}, {0, nil, time.Hour}, {time.Hour, nil, 0}, {time.Hour + time.Second, ErrExpired, 0}} {
		caller, err := g.Admit(Proof{Chain: chain, At: begin.Add(c.at)})
		if !errors.Is(err, c.expected) || (err == nil) != (c.expected == nil) {
			t.Errorf("after %v: %v", c.at, err)
		}
		if err != nil {
			continue
		}
		if left, by := caller.Left(); !by || left != c.left {
			t.Errorf("after %v it is good for %v, %v", c.at, left, by)
		}
	}
	if _, err := g.Admit(Proof{Chain: chain}); !errors.Is(err, ErrExpired) {
		t.Errorf("when it is not known what time it is: %v", err)
	}
	by, err := g.Admit(with("a"))
	if err != nil {
		t.Fatal(err)
	}
	if _, certified := by.Left(); certified {
		t.Error("a credential has an end")
	}
}

// Between being let in and staying the authorities may change.
func TestAuthorityRemovedDuringAdmission(t *testing.T) {
	g := NewGate(policy(t, entry("a", Limits{})))
	by, err := g.Admit(Proof{Chain: certificate("a")})
	if err != nil {
		t.Fatal(err)
	}
	g.Recheck(func(*x509.Certificate, []*x509.Certificate) error { return errors.New("no") })
	if _, err := g.Register(by, true, func(error) {}); !errors.Is(err, ErrRevoked) {
		t.Errorf("it enters: %v", err)
	}
	if g.Streams() != 0 {
		t.Error("it counts")
	}
}

// An identity has so many calls under way, and leaves room for others.
func TestCallsPerIdentityAreLimited(t *testing.T) {
	g := NewGate(policy(t, entry("a", Limits{}), entry("b", Limits{})))
	caller := func(who string) *Caller {
		c, err := g.Admit(with(who))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var leave []func()
	for range CallsMax {
		out, err := g.Call(caller("a"))
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, out)
	}
	if _, err := g.Call(caller("a")); !errors.Is(err, ErrTooMany) {
		t.Errorf("one call too many: %v", err)
	}
	if _, err := g.Call(caller("b")); err != nil {
		t.Errorf("somebody else's call: %v", err)
	}
	if n := g.Streams(); n != 0 {
		t.Errorf("%d streams where there are calls", n)
	}
	leave[0]()
	if _, err := g.Call(caller("a")); err != nil {
		t.Errorf("when one has left: %v", err)
	}
}
