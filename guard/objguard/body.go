package objguard

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/pawlproject/pawl/guard"
)

// Bounds of what one request carries, in bytes.
const (
	// DataMax is the size of a pointer's own bytes, and of a record of a log.
	DataMax = 4 << 20
	// headerMax is the size of the first line of a pointer or a record. About a hundred
	// bytes are taken by each object that a manifest names.
	headerMax = 4 << 20
	// nonceMax is the size of a nonce that is read.
	nonceMax = 64
	// ancestorsKept is how many versions before its own a pointer names.
	ancestorsKept = 16
)

// ErrForeignObject: an object that lies where a guard's should has another form. It was
// not written by this package.
var ErrForeignObject = errors.New("objguard: not an object of this guard")

// header is the first line of a pointer and of a record.
type header struct {
	Token guard.Token `json:"fencing_token"`
	Cell  string      `json:"cell"`
	// Nonce is 128 random bits: no two writes make the same body, so that an ETag that
	// is a hash of the body never returns.
	Nonce string `json:"nonce"`

	// Version counts the versions of a pointer, from 1; 0 in a record.
	Version uint64 `json:"version,omitempty"`
	// Before are the nonces of the versions before this one, the last first, at most
	// ancestorsKept.
	Before []string `json:"before,omitempty"`
	// Boundary is the last slot of a log that counts as deleted.
	Boundary uint64 `json:"boundary,omitempty"`
	// Fenced is the slot with which the mark was raised to Token: the first of this token,
	// as far as the log's pointer knows.
	Fenced uint64 `json:"fenced,omitempty"`
	// Objects are the committed objects: their keys behind the prefix, by name.
	Objects map[string]string `json:"objects,omitempty"`

	// Fence says that a record was written by a claim and holds nothing.
	Fence bool `json:"fence,omitempty"`
}

func newNonce() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// state is what a guard has seen that keeps this header.
func (h header) state() guard.State { return guard.State{Cell: h.Cell, Seen: h.Token} }

// ofVersion returns the nonce of version v: this one or one before it. Known is false
// where this header does not reach back to it, or not yet up to it.
func (h header) ofVersion(v uint64) (nonce string, known bool) {
	switch {
	case v == 0 || v > h.Version:
		return "", false
	case v == h.Version:
		return h.Nonce, true
	case h.Version-v <= uint64(len(h.Before)):
		return h.Before[h.Version-v-1], true
	}
	return "", false
}

// next is the header of a version that follows h under a fence.
func (h header) next(f guard.Fence) header {
	n := h
	n.Token, n.Cell, n.Nonce, n.Version = f.Token, f.Cell, newNonce(), h.Version+1
	if h.Version > 0 {
		n.Before = append([]string{h.Nonce}, h.Before...)
		n.Before = n.Before[:min(len(n.Before), ancestorsKept)]
	}
	return n
}

// encode makes the body of an object: the header on a line, then data as it is.
func encode(h header, data []byte) ([]byte, error) {
	if len(data) > DataMax {
		return nil, fmt.Errorf("objguard: %d bytes of data, limit %d", len(data), DataMax)
	}
	line, err := json.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("objguard: write the header: %w", err)
	}
	if len(line) >= headerMax {
		return nil, fmt.Errorf("objguard: a header of %d bytes, limit %d: too many objects in one manifest", len(line), headerMax)
	}
	body := make([]byte, 0, len(line)+1+len(data))
	return append(append(append(body, line...), '\n'), data...), nil
}

// decode reads what encode made.
func decode(body []byte) (header, []byte, error) {
	bad := func(why string) (header, []byte, error) {
		return header{}, nil, fmt.Errorf("%w: %s", ErrForeignObject, why)
	}
	line, data, ok := bytes.Cut(body, []byte{'\n'})
	if !ok {
		return bad("no first line")
	}
	var h header
	if err := json.Unmarshal(line, &h); err != nil {
		return bad("its first line is no header: " + err.Error())
	}
	if err := (guard.Fence{Resource: "any", Token: h.Token, Cell: h.Cell}).Validate(); err != nil {
		return bad(err.Error())
	}
	if h.Nonce == "" || len(h.Nonce) > nonceMax || len(h.Before) > ancestorsKept {
		return bad("its nonces are out of bounds")
	}
	if h.Version > 0 && uint64(len(h.Before)) != min(h.Version-1, ancestorsKept) {
		return bad("its versions do not add up")
	}
	return h, data, nil
}

// lent is a body during one request. An HTTP client may read on after the answer, or after
// the context ended: then it reads nothing, and takes nothing from the repetition of the
// request or from a body that its owner has closed.
type lent struct {
	mu sync.Mutex
	of io.ReadSeeker // nil: given back
}

var errGivenBack = errors.New("objguard: the request has ended")

func (l *lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		return 0, errGivenBack
	}
	return l.of.Read(p)
}

func (l *lent) Seek(offset int64, whence int) (int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		return 0, errGivenBack
	}
	return l.of.Seek(offset, whence)
}

// back ends the use of the body, after the read that is on its way.
func (l *lent) back() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of = nil
}

// keyName turns a text into a part of a key: letters, digits, "-", "_" and, but for the
// first place, "." stand for themselves, every other byte is "=" and two hexadecimal
// digits. What is longer than partMax is cut and ends with a hash: "==" stands in no
// other name. A slash is never one of the store's own.
func keyName(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	if b.Len() <= partMax {
		return b.String()
	}
	sum := sha256.Sum256([]byte(s))
	return b.String()[:partMax-2-2*len(sum)] + "==" + hex.EncodeToString(sum[:])
}

// The names of pointers, which no keyName makes: a bucket policy can tell them from
// committed objects.
const (
	pointerName    = "pawl=pointer"
	logPointerName = "pawl=log-pointer"
)

// partMax is the length of a part of a key. Stores that keep objects as files take 255.
const partMax = 200
