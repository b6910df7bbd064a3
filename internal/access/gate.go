package access

import (
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// StreamsDefault bounds the streams of an identity that has no limit of its own,
	// StreamsMax those of all together.
	StreamsDefault = 16384
	StreamsMax     = 65536
	// CallsMax bounds the other calls that an identity with a name has under way,
	// AllCallsMax those of all together.
	CallsMax    = 16384
	AllCallsMax = 65536
)

// The reasons for which somebody is not let in, or put out.
var (
	// ErrNoProof: the caller presented nothing.
	ErrNoProof = errors.New("no credential was presented; a bearer credential or a client certificate is needed")
	// ErrUnknown: what the caller presented is nobody's.
	ErrUnknown = errors.New("the credential is not known here")
	// ErrExpired: the caller's certificate, or one above it, is over, whatever it
	// was when the connection began.
	ErrExpired = errors.New("the certificate has expired; connect again with one that has not")
	// ErrRevoked: the policy was replaced, and the caller's proof is not in the
	// new one.
	ErrRevoked = errors.New("the credential is not known here any more")
	// ErrChanged: the policy was replaced, and the caller is allowed other things
	// now. It may come back.
	ErrChanged = errors.New("what this identity may do has changed; connect again")
	// ErrTooMany: the identity, or the server, has too many streams, or calls.
	ErrTooMany = errors.New("too many at once")
)

// Gate lets callers in under the present policy. Its methods may be called by
// several goroutines.
type Gate struct {
	// Denied and Strangers count requests that a right was missing for, and those of
	// callers who were nobody.
	Denied, Unauthenticated atomic.Uint64

	policy atomic.Pointer[Policy]
	// recheck verifies a certificate once more when the authorities have changed
	// since the start; nil until then.
	recheck atomic.Pointer[func(*x509.Certificate, []*x509.Certificate) error]

	mu         sync.Mutex
	admissions map[*Admission]struct{}
	streams    quota
	calls      quota

	bytes, decodings *sharedBudget
}

// NewGate returns a gate with a policy. Without one, nil, it is open: everybody
// is allowed everything and has no name.
func NewGate(p *Policy) *Gate {
	g := &Gate{
		admissions: map[*Admission]struct{}{},
		streams:    quota{what: "streams", most: StreamsMax, of: map[string]int{}},
		calls:      quota{what: "calls", most: AllCallsMax, of: map[string]int{}},

		bytes:     newSharedBudget(BytesMax, AllBytesMax),
		decodings: newSharedBudget(DecodingsMax, AllDecodingsMax),
	}
	g.policy.Store(p)
	return g
}

// Open reports whether everybody is let in.
func (g *Gate) Open() bool { return g.policy.Load() == nil }

// Proof is what a caller presents.
type Proof struct {
	// Authorization is the header or metadata of that name, as it came: one
	// value; nil: none.
	Authorization []string
	// Chain is the verified certificate of the caller and those above it; empty:
	// none.
	Chain []*x509.Certificate
	// Remote is the address that the caller comes from.
	Remote string
	// At is the wall time at which it is presented. Certificates that are not good
	// then prove nothing.
	At time.Time
}

// Admit identifies a caller: by its credential if it presents one, and otherwise by its
// certificate. Errors: ErrNoProof, ErrUnknown, ErrExpired. An error repeats nothing of
// what was presented.
func (g *Gate) Admit(p Proof) (*Caller, error) {
	c := &Caller{gate: g, Remote: p.Remote, at: p.At}
	policy := g.policy.Load()
	if policy == nil {
		c.now.Store(&standing{nil, anyone})
		return c, nil
	}
	switch {
	case len(p.Authorization) > 0:
		secret, err := bearer(p.Authorization)
		if err != nil {
			return nil, err
		}
		c.digest = DigestOf(secret)
	case len(p.Chain) > 0:
		for _, one := range p.Chain {
			// A connection outlives what it began with.
			if p.At.Before(one.NotBefore) || p.At.After(one.NotAfter) {
				return nil, ErrExpired
			}
		}
		if !g.stands(p.Chain) {
			return nil, ErrUnknown
		}
		c.chain, c.names = p.Chain, certificateNames(p.Chain[0])
	default:
		return nil, ErrNoProof
	}
	identity := c.resolve(policy)
	if identity == nil {
		return nil, ErrUnknown
	}
	c.now.Store(&standing{policy, identity})
	return c, nil
}

// bearer takes the credential out of an authorization.
func bearer(values []string) (string, error) {
	if len(values) != 1 {
		return "", fmt.Errorf("%w: the authorization is there twice", ErrUnknown)
	}
	scheme, secret, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", fmt.Errorf("%w: expected an authorization of the form \"Bearer CREDENTIAL\"", ErrUnknown)
	}
	if CheckCredential(secret) != nil {
		return "", ErrUnknown
	}
	return secret, nil
}

// stands reports whether one of the present authorities stands for a certificate.
func (g *Gate) stands(chain []*x509.Certificate) bool {
	check := g.recheck.Load()
	return len(chain) == 0 || check == nil || (*check)(chain[0], chain[1:]) == nil
}

// Streams is how many are open.
func (g *Gate) Streams() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.streams.all
}

// Set replaces the policy, evicts admitted callers whose rights have changed, and
// returns their number. An open gate stays open, and a gate with a policy keeps having
// one.
func (g *Gate) Set(p *Policy) int {
	if p == nil || g.Open() {
		return 0
	}
	g.policy.Store(p)
	return g.evict(func(x *Admission) error {
		switch i := x.caller.Identity(); {
		case i == nil:
			return ErrRevoked
		case !i.same(x.in):
			return ErrChanged
		}
		return nil
	})
}

// Recheck has certificates verified once more from now on, since the
// authorities have changed, and evicts callers whose certificate no longer passes.
func (g *Gate) Recheck(check func(leaf *x509.Certificate, above []*x509.Certificate) error) int {
	g.recheck.Store(&check)
	return g.evict(func(x *Admission) error {
		if chain := x.caller.chain; len(chain) > 0 && check(chain[0], chain[1:]) != nil {
			return ErrRevoked
		}
		return nil
	})
}

func (g *Gate) evict(why func(*Admission) error) int {
	out := map[*Admission]error{}
	g.mu.Lock()
	for x := range g.admissions {
		if err := why(x); err != nil {
			out[x] = err
			g.drop(x)
		}
	}
	g.mu.Unlock()
	for x, err := range out {
		x.out(err)
	}
	return len(out)
}
