package logdump

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/pawlproject/pawl/api/recordpb"
	"github.com/pawlproject/pawl/cmd/pawl/internal/etcdstore"
	"github.com/pawlproject/pawl/cmd/pawl/internal/termsafe"
	"github.com/pawlproject/pawl/internal/store"
)

// What an inspection finds, by the names of package kvlog.
const (
	Tenure  = "tenure"
	Pointer = "snapshot"
	Batch   = "batch"
	Chunk   = "chunk"
	Missing = "missing"
)

// field is a name and what is printed for it.
type field struct {
	name  string
	value any
}

// record is what is printed for one key.
type record struct {
	fields []field
	events [][]field
}

func (r *record) add(name string, value any) { r.fields = append(r.fields, field{name, value}) }

// Print prints one key. Events that do not read, although the checksum fits, are
// damage, and noted in f.
func Print(w io.Writer, f *etcdstore.Found, asJSON bool) error {
	r := recordOf(f)
	if asJSON {
		return printRecordJSON(w, r)
	}
	for i, fields := range append([][]field{r.fields}, r.events...) {
		text := make([]string, 0, len(fields))
		for j, f := range fields {
			if j == 0 {
				text = append(text, fmt.Sprint(f.value))
			} else {
				text = append(text, fmt.Sprintf("%s=%v", f.name, shownValue(f.value)))
			}
		}
		indent := ""
		if i > 0 {
			indent = "    "
		}
		if _, err := fmt.Fprintln(w, indent+strings.Join(text, " ")); err != nil {
			return err
		}
	}
	return nil
}

// shownValue quotes what a reader could misread.
func shownValue(v any) any {
	if s, ok := v.(string); ok && (s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || r > '~' })) {
		return strconv.Quote(s)
	}
	if list, ok := v.([][]field); ok {
		var all []string
		for _, fields := range list {
			var one []string
			for _, f := range fields {
				one = append(one, fmt.Sprintf("%s:%v", f.name, shownValue(f.value)))
			}
			all = append(all, "{"+strings.Join(one, " ")+"}")
		}
		return strings.Join(all, "")
	}
	return v
}

func printRecordJSON(w io.Writer, r record) error {
	if r.events != nil {
		r.add("events", r.events)
	}
	raw, err := json.Marshal(ordered(r.fields))
	if err != nil {
		return err
	}
	_, err = w.Write(append(termsafe.JSON(raw), '\n'))
	return err
}

// ordered marshals as an object that keeps its order.
type ordered []field

func (o ordered) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, f := range o {
		if i > 0 {
			out = append(out, ',')
		}
		value := f.value
		if list, ok := value.([][]field); ok {
			objects := make([]ordered, len(list))
			for i, fields := range list {
				objects[i] = fields
			}
			value = objects
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		out = append(strconv.AppendQuote(out, f.name), ':')
		out = append(out, raw...)
	}
	return append(out, '}'), nil
}

// recordOf reads one key. What does not read is shown by its size alone.
func recordOf(f *etcdstore.Found) record {
	var r record
	r.add("kind", string(f.Kind))
	if f.Kind != Missing {
		r.add("key", f.Key)
		r.add("revision", strconv.FormatInt(f.Rev, 10))
		r.add("bytes", len(f.Value))
	}
	switch f.Kind {
	case Tenure, Pointer:
		addJSON(&r, f.Value)
	case Batch:
		r.add("number", decimal(f.Number))
		if h, err := store.HeaderOf(f.Value); err == nil {
			r.add("epoch", decimal(h.Epoch))
			r.add("durable", decimal(h.Durable))
			r.add("previous", hex.EncodeToString(h.Previous))
			r.add("sum", hex.EncodeToString(h.Sum[:]))
			r.addEvents(f, store.EachBatchEvent)
		}
	case Chunk:
		r.add("batch", decimal(f.Number))
		if h, err := store.ChunkHeaderOf(f.Value); err == nil {
			r.add("index", h.Index)
			r.add("last", h.Last)
			r.add("sum", hex.EncodeToString(h.Sum[:]))
			r.addEvents(f, store.EachChunkEvent)
		}
	}
	if f.Note != "" {
		r.add("note", f.Note)
	}
	if f.Damage != nil {
		r.add("damage", f.Damage.Error())
	}
	return r
}

// addJSON adds the members of an object that is kept as JSON, but for the nonce,
// with which batches could be signed.
func addJSON(r *record, raw []byte) {
	var members map[string]any
	if json.Unmarshal(raw, &members) != nil {
		return // which is damage and said so
	}
	names := make([]string, 0, len(members))
	for name := range members {
		if name != "nonce" && name != "format" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		value := members[name]
		if n, ok := value.(float64); ok {
			value = strconv.FormatFloat(n, 'f', 0, 64)
		}
		r.add(name, value)
	}
}

// addEvents reads one event after the other: all at once, those of a megabyte can take
// some two hundred.
func (r *record) addEvents(f *etcdstore.Found, each func([]byte, func(*recordpb.Event) error) error) {
	r.events = [][]field{}
	err := each(f.Value, func(e *recordpb.Event) error {
		r.events = append(r.events, fieldsOf(e.ProtoReflect()))
		return nil
	})
	if err != nil && f.Damage == nil {
		f.Damage = fmt.Errorf("%s %d: %w", f.Kind, f.Number, err)
	}
}

// hashes are the bytes that may be shown, since they are hashes; a value is its
// holder's and shown too. Every other field of bytes, known or to come, is not.
var hashes = []string{"session", "lease", "request_key"}

// fieldsOf shows what a message holds, in the order of its definition.
func fieldsOf(m protoreflect.Message) []field {
	var all []field
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) {
			continue
		}
		name, v := string(fd.Name()), m.Get(fd)
		if fd.IsList() {
			all = append(all, field{name, listed(fd, v.List())})
			continue
		}
		all = append(all, scalar(fd, name, v))
	}
	return all
}

func listed(fd protoreflect.FieldDescriptor, list protoreflect.List) any {
	if fd.Kind() == protoreflect.MessageKind {
		all := make([][]field, 0, list.Len())
		for i := range list.Len() {
			all = append(all, fieldsOf(list.Get(i).Message()))
		}
		return all
	}
	all := make([]any, 0, list.Len())
	for i := range list.Len() {
		all = append(all, scalar(fd, "", list.Get(i)).value)
	}
	return all
}

// scalar shows one value as the rest of the command line does: numbers of 64
// bits as strings, durations as Go writes them.
func scalar(fd protoreflect.FieldDescriptor, name string, v protoreflect.Value) field {
	switch fd.Kind() {
	case protoreflect.BytesKind:
		switch {
		case slices.Contains(hashes, name):
			return field{name, hex.EncodeToString(v.Bytes())}
		case name == "value":
			return field{name, base64.StdEncoding.EncodeToString(v.Bytes())}
		}
		return field{name, "withheld"}
	case protoreflect.EnumKind:
		text := strconv.Itoa(int(v.Enum()))
		if known := fd.Enum().Values().ByNumber(v.Enum()); known != nil {
			_, text, _ = strings.Cut(strings.ToLower(string(known.Name())), "_")
		}
		return field{name, text}
	case protoreflect.Int64Kind:
		if short, ok := strings.CutSuffix(name, "_unix_nano"); ok {
			return field{short, time.Unix(0, v.Int()).UTC().Format(time.RFC3339Nano)}
		}
		if short, ok := strings.CutSuffix(name, "_nano"); ok {
			return field{short, time.Duration(v.Int()).String()}
		}
		return field{name, strconv.FormatInt(v.Int(), 10)}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return field{name, decimal(v.Uint())}
	}
	return field{name, v.Interface()}
}

func decimal(n uint64) string { return strconv.FormatUint(n, 10) }
