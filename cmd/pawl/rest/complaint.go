package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// textFields are texts that stand for something: what was expected instead of
// another type is shown by an example.
var textFields = map[string]string{
	"ttl":           `"10s" (a duration as text)`,
	"wait":          `"10s" (a duration as text)`,
	"lock_delay":    `"10s" (a duration as text)`,
	"fencing_token": `"1867776000000001" (a number as text)`,
	"value":         `"aGVsbG8=" (bytes as text, in base64)`,
}

// typeWords are huma's words for types, and ours.
var typeWords = map[string]string{
	"expected string":  "a text in quotes",
	"expected boolean": "true or false, without quotes",
	"expected integer": "a whole number, without quotes",
	"expected number":  "a number, without quotes",
	"expected array":   "a list in brackets",
	"expected object":  "an object in braces",
}

var missing = regexp.MustCompile(`^expected required property (\S+) to be present$`)

// complaint words what huma found wrong with a part of a request. Values are not
// echoed.
func complaint(d *huma.ErrorDetail) string {
	where := strings.TrimPrefix(d.Location, "body.")
	if where == "body" {
		where = ""
	}
	if m := missing.FindStringSubmatch(d.Message); m != nil {
		return fmt.Sprintf("%q is missing", strings.TrimPrefix(where+"."+m[1], "."))
	}
	query, inQuery := strings.CutPrefix(where, "query.")
	switch words, typed := typeWords[d.Message]; {
	case typed && textFields[where] != "" && d.Message == "expected string":
		return d.Location + ": " + textFields[where] + " was expected"
	case typed:
		return strings.TrimPrefix(d.Location+": ", ": ") + words + " was expected"
	case d.Message == "unexpected property":
		return fmt.Sprintf("%q is not known; /openapi.json describes what is", where)
	case inQuery && d.Message == "unknown query parameter":
		return fmt.Sprintf("the query parameter %q is not known; /openapi.json describes what is", query)
	case d.Message == "expected length >= 1":
		return fmt.Sprintf("%q is empty", where)
	case where == "":
		return d.Message
	}
	return d.Location + ": " + d.Message
}

// ofField adds to an error of the decoder which field it speaks of; those of a
// field's own UnmarshalText do not say.
func ofField(data []byte, v any, err error) error {
	t := reflect.TypeOf(v)
	var fields map[string]json.RawMessage
	if t.Kind() != reflect.Pointer || json.Unmarshal(data, &fields) != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		one, no := json.Marshal(map[string]json.RawMessage{k: fields[k]})
		if no == nil && json.Unmarshal(one, reflect.New(t.Elem()).Interface()) != nil {
			return fmt.Errorf("body.%s: %w", k, err)
		}
	}
	return err
}
