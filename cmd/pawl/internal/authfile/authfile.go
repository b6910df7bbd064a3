package authfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/pawlproject/pawl/internal/access"
	"github.com/pawlproject/pawl/internal/bounds"
	"github.com/pawlproject/pawl/internal/infile"
)

// The bounds of a file.
const (
	BytesMax      = 8 << 20
	IdentitiesMax = 10_000
	// SeparatorsMax bounds what parts the values of a file: line ends, dashes, commas,
	// colons, question marks and opening brackets. A value of two bytes takes some 300
	// in memory while a file is read.
	SeparatorsMax = 1_000_000
	// NameMax bounds the bytes of an identity's name.
	NameMax = 128
	// ProofsMax bounds the credentials of an identity, and its certificates.
	ProofsMax = 16
	// RightsMax bounds the entries of an identity's rights.
	RightsMax = 256
	// LimitMax bounds the numbers of an identity's limits.
	LimitMax = 1_000_000
)

// Read reads the file at path; now is the wall time. open is set when others than
// its owner may read or write it: it holds no secret, but a user that can write it may
// do everything. The group of root's file may read it: a server that has no fixed
// user (DynamicUser= of systemd) reads it so.
func Read(path string, now time.Time) (p *access.Policy, open bool, err error) {
	raw, st, err := infile.Read(path, BytesMax, now)
	if err != nil {
		return nil, false, err
	}
	p, err = Parse(raw)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	others := st.Mode().Perm() & 0o077
	if s, ok := st.Sys().(*syscall.Stat_t); ok && s.Uid == 0 {
		others &^= 0o040
	}
	return p, others != 0, nil
}

// Parse reads a policy.
func Parse(raw []byte) (*access.Policy, error) {
	if len(raw) > BytesMax {
		return nil, fmt.Errorf("more than %d bytes", BytesMax)
	}
	if separators(raw) > SeparatorsMax {
		return nil, fmt.Errorf("more than %d line ends, dashes, commas, colons, question marks and opening brackets", SeparatorsMax)
	}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the file is empty; expected identities")
		}
		return nil, fmt.Errorf("not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is a second document; expected one")
	}
	r := &reader{names: map[string]int{}, proofs: map[string]int{}}
	entries := r.file(doc.Content[0])
	if r.err != nil {
		return nil, r.err
	}
	return access.NewPolicy(entries...)
}

// separators counts what parts values from each other. A dash parts them in front of
// a blank alone.
func separators(raw []byte) (n int) {
	for i, b := range raw {
		switch b {
		case '\n', ',', ':', '?', '[', '{':
			n++
		case '-':
			if i+1 == len(raw) || raw[i+1] <= ' ' {
				n++
			}
		}
	}
	return n
}

// reader walks the nodes of a file. The first error stays.
type reader struct {
	err           error
	names, proofs map[string]int // the line of the first
}

func (r *reader) fail(n *yaml.Node, format string, a ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("line %d: %s", n.Line, fmt.Sprintf(format, a...))
	}
}

// mapping calls what belongs to each key of a node.
func (r *reader) mapping(n *yaml.Node, what string, keys map[string]func(*yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s is no mapping", what)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content) && r.err == nil; i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		read, known := keys[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode || !known:
			r.fail(k, "%s has the unknown key %.40q", what, k.Value)
		case seen[k.Value]:
			r.fail(k, "%s has the key %q twice", what, k.Value)
		case v.Kind == yaml.AliasNode || v.Anchor != "":
			r.fail(v, "%q has an alias or an anchor; expected the value itself", k.Value)
		default:
			seen[k.Value] = true
			read(v)
		}
	}
}

// list calls each for the entries of a node.
func (r *reader) list(n *yaml.Node, what string, most int, each func(*yaml.Node)) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "%s is no list", what)
		return
	}
	if len(n.Content) > most {
		r.fail(n, "%s has %d entries; at most %d were expected", what, len(n.Content), most)
		return
	}
	for _, v := range n.Content {
		if v.Kind == yaml.AliasNode || v.Anchor != "" {
			r.fail(v, "%s has an alias or an anchor; expected the value itself", what)
		}
		if r.err != nil {
			return
		}
		each(v)
	}
}

// text reads a string that is written as one: a name such as 123 or true wants
// quotes.
func (r *reader) text(n *yaml.Node, what string) string {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!str" {
		r.fail(n, "%s is no text; expected one, in quotes if need be", what)
		return ""
	}
	return n.Value
}

func (r *reader) file(n *yaml.Node) (all []access.Entry) {
	if n.Kind == yaml.SequenceNode {
		r.fail(n, `the file is no mapping: "identities:" is missing at its top`)
	}
	there := false
	r.mapping(n, "the file", map[string]func(*yaml.Node){
		"identities": func(v *yaml.Node) {
			there = true
			r.list(v, "identities", IdentitiesMax, func(v *yaml.Node) { all = append(all, r.entry(v)) })
		},
	})
	if !there {
		r.fail(n, `"identities:" is missing at its top`)
	}
	return all
}

func (r *reader) entry(n *yaml.Node) (e access.Entry) {
	var name string
	var limits access.Limits
	var grants []access.Grant
	r.mapping(n, "the identity", map[string]func(*yaml.Node){
		"name": func(v *yaml.Node) {
			name = r.text(v, "name")
			r.named(v, name)
		},
		"credentials": func(v *yaml.Node) {
			r.list(v, "credentials", ProofsMax, func(v *yaml.Node) {
				d, err := access.ParseDigest(r.text(v, "credential"))
				if err != nil {
					r.fail(v, "%v", err)
				}
				r.once(v, "credential", d.String())
				e.Credentials = append(e.Credentials, d)
			})
		},
		"certificates": func(v *yaml.Node) {
			r.list(v, "certificates", ProofsMax, func(v *yaml.Node) {
				c := r.text(v, "certificate")
				if err := access.CheckCertificateName(c); err != nil {
					r.fail(v, "%v", err)
				}
				r.once(v, "certificate", c)
				e.Certificates = append(e.Certificates, c)
			})
		},
		"rights": func(v *yaml.Node) {
			r.list(v, "rights", RightsMax, func(v *yaml.Node) { grants = append(grants, r.grant(v)) })
		},
		"limits": func(v *yaml.Node) {
			r.mapping(v, "limits", map[string]func(*yaml.Node){
				"streams":  func(v *yaml.Node) { limits.Streams = r.number(v, "streams") },
				"acquires": func(v *yaml.Node) { limits.Acquires = r.number(v, "acquires") },
			})
		},
	})
	if name == "" {
		r.fail(n, "the identity has no name")
	}
	e.Identity = access.NewIdentity(name, limits, grants...)
	return e
}

// named checks the name of an identity, which stands in logs and listings.
func (r *reader) named(n *yaml.Node, name string) {
	bad := func(c rune) bool { return !unicode.IsGraphic(c) }
	switch {
	case name == "" || len(name) > NameMax || !utf8.ValidString(name) || strings.ContainsFunc(name, bad):
		r.fail(n, "the name is %.40q; 1 to %d bytes of printable text were expected", name, NameMax)
	case r.names[name] != 0:
		r.fail(n, "the name %q stands in line %d already", name, r.names[name])
	}
	r.names[name] = n.Line
}

func (r *reader) once(n *yaml.Node, what, proof string) {
	if line := r.proofs[proof]; line != 0 {
		r.fail(n, "the %s stands in line %d already", what, line)
	}
	r.proofs[proof] = n.Line
}

func (r *reader) grant(n *yaml.Node) (g access.Grant) {
	prefixed := false
	r.mapping(n, "the right", map[string]func(*yaml.Node){
		"prefix": func(v *yaml.Node) {
			prefixed = true
			g.Prefix = r.text(v, "prefix")
			if g.Prefix == "" {
				return
			}
			if err := bounds.ValidName(g.Prefix); err != nil {
				r.fail(v, "the prefix is none of a name: %v", err)
			}
		},
		"allow": func(v *yaml.Node) {
			r.list(v, "allow", 4, func(v *yaml.Node) {
				right, err := access.ParseRight(r.text(v, "right"))
				if err != nil {
					r.fail(v, "%v", err)
				}
				g.Rights = append(g.Rights, right)
			})
		},
	})
	switch {
	case !prefixed:
		r.fail(n, `the prefix is missing; "" is that of every name`)
	case len(g.Rights) == 0:
		r.fail(n, "allow is missing, or empty")
	}
	return g
}

func (r *reader) number(n *yaml.Node, what string) (v int) {
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || n.Decode(&v) != nil || v < 1 || v > LimitMax {
		r.fail(n, "%s is no number from 1 to %d", what, LimitMax)
	}
	return v
}

// Head is what a file begins with.
const Head = "identities:\n"

// Add returns the text to append to a file that holds old, so that entry, which Line
// made, becomes one of its identities. It fails when the file has an identity of that
// name, or is written so that nothing can be appended, as JSON is.
func Add(old []byte, entry string) (more string, err error) {
	end := ""
	if len(old) > 0 && !bytes.HasSuffix(old, []byte("\n")) {
		end = "\n"
	}
	for _, more := range []string{end + entry, end + Head + entry} {
		_, failed := Parse(append(bytes.Clone(old), more...))
		if failed == nil {
			return more, nil
		}
		if err == nil {
			err = failed
		}
	}
	if _, before := Parse(old); before != nil {
		err = before
	}
	return "", err
}

// Line is an identity as it stands in a file.
func Line(name string, proof access.Digest, prefix string, rights []access.Right) string {
	words := make([]string, 0, len(rights))
	for _, r := range rights {
		words = append(words, r.String())
	}
	return fmt.Sprintf("  - name: %q\n    credentials: [%q]\n    rights:\n      - {prefix: %q, allow: [%s]}\n",
		name, proof, prefix, strings.Join(words, ", "))
}
