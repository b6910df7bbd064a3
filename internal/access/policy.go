package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	// CredentialMin and CredentialMax bound the bytes of a credential. 32
	// characters of base64 are 192 random bits, of hex 128.
	CredentialMin = 32
	CredentialMax = 512
)

// credentialMark begins the credentials that we draw, so that a search
// texts for secrets finds them.
const credentialMark = "pawl_"

// NewCredential draws a credential of 256 random bits.
func NewCredential() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return credentialMark + base64.RawURLEncoding.EncodeToString(b[:])
}

// CheckCredential tells what is wrong with a credential. It never repeats it.
func CheckCredential(secret string) error {
	if n := len(secret); n < CredentialMin || n > CredentialMax {
		return fmt.Errorf("the credential has %d characters; %d to %d were expected, at random", n, CredentialMin, CredentialMax)
	}
	for _, c := range []byte(secret) {
		if c <= ' ' || c > '~' {
			return errors.New("the credential has a character that is not printable ASCII, or a blank")
		}
	}
	return nil
}

// Digest is what is kept of a credential: its SHA-256. A fast hash is enough: a slow
// one protects secrets that can be guessed, and 128 random bits cannot be guessed.
type Digest [sha256.Size]byte

const digestMark = "sha256:"

// DigestOf hashes a credential.
func DigestOf(secret string) Digest { return sha256.Sum256([]byte(secret)) }

func (d Digest) String() string { return digestMark + hex.EncodeToString(d[:]) }

// ParseDigest reads what String writes.
func ParseDigest(s string) (d Digest, err error) {
	rest, ok := strings.CutPrefix(s, digestMark)
	b, bad := hex.DecodeString(rest)
	if !ok || bad != nil || len(b) != len(d) {
		return d, errors.New("no hash of a credential; expected sha256: and 64 hex digits, as \"pawl auth new\" and \"pawl auth hash\" print them")
	}
	return Digest(b), nil
}

// Entry is one identity with what proves it.
type Entry struct {
	Identity    *Identity
	Credentials []Digest
	// Certificates are names of client certificates, as CheckCertificateName wants
	// them.
	Certificates []string
}

// Policy is the identities and their proofs. It does not change.
type Policy struct {
	key          [32]byte
	identities   map[string]*Identity
	credentials  map[Digest]credential
	certificates map[string]*Identity
}

type credential struct {
	digest   Digest
	identity *Identity
}

// NewPolicy returns a policy. It is an error when a name or a proof is there
// twice: nobody can say then who is meant.
func NewPolicy(entries ...Entry) (*Policy, error) {
	p := &Policy{identities: map[string]*Identity{}, credentials: map[Digest]credential{}, certificates: map[string]*Identity{}}
	_, _ = rand.Read(p.key[:]) // never fails
	for _, e := range entries {
		name := e.Identity.name
		if name == "" {
			return nil, errors.New("an identity without a name")
		}
		if p.identities[name] != nil {
			return nil, fmt.Errorf("the identity %q is there twice", name)
		}
		p.identities[name] = e.Identity
		for _, d := range e.Credentials {
			at := p.place(d)
			if first, twice := p.credentials[at]; twice {
				return nil, fmt.Errorf("one credential is there for %q and for %q", first.identity.name, name)
			}
			p.credentials[at] = credential{d, e.Identity}
		}
		for _, c := range e.Certificates {
			if first := p.certificates[c]; first != nil {
				return nil, fmt.Errorf("the certificate %q is there for %q and for %q", c, first.name, name)
			}
			p.certificates[c] = e.Identity
		}
	}
	return p, nil
}

// Len is the number of identities.
func (p *Policy) Len() int { return len(p.identities) }

// Identity finds an identity by its name; nil: there is none.
func (p *Policy) Identity(name string) *Identity { return p.identities[name] }

// place is where a digest is kept. Without the key nobody can choose secrets
// whose places are near that of another.
func (p *Policy) place(d Digest) Digest {
	m := hmac.New(sha256.New, p.key[:])
	m.Write(d[:])
	return Digest(m.Sum(nil))
}

func (p *Policy) byCredential(d Digest) *Identity {
	c, ok := p.credentials[p.place(d)]
	if !ok || subtle.ConstantTimeCompare(c.digest[:], d[:]) != 1 {
		return nil
	}
	return c.identity
}

// byCertificate finds who a certificate's names stand for. Names of several
// identities in one certificate are nobody's.
func (p *Policy) byCertificate(names []string) *Identity {
	var found *Identity
	for _, n := range names {
		switch i := p.certificates[n]; {
		case i == nil:
		case found != nil && found != i:
			return nil
		default:
			found = i
		}
	}
	return found
}
