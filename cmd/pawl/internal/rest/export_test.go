package rest

import (
	"reflect"
	"strings"

	"github.com/pawlproject/pawl/internal/locktable"
)

// Body is the body of an acquire.
type Body = acquireBody

// DecodeStrict is decodeStrict for one.
func DecodeStrict(data []byte) (*Body, error) {
	b := &acquireBody{}
	return b, decodeStrict(data, b)
}

// KnownKeys are the keys that the bodies of requests are read by, and those that
// their descriptions are made of.
func KnownKeys() (read, described map[string][]string) {
	read, described = map[string][]string{}, map[string][]string{}
	for name, b := range map[string]object{"acquire": &acquireBody{}, "session": &openSessionBody{}, "renew": &renewBody{}, "break": &breakRequest{}} {
		t := reflect.TypeOf(b).Elem()
		for i := range t.NumField() {
			key, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			if key == "" {
				continue
			}
			described[name] = append(described[name], key)
			if b.field(key, &reader{data: []byte("x")}) != errUnknownKey {
				read[name] = append(read[name], key)
			}
		}
	}
	return read, described
}

// Reasons are the reasons that a problem can have, with their statuses.
func Reasons() map[string]int {
	all := map[string]int{}
	for reason, status := range statusOf {
		if reason != locktable.Cancelled { // it comes out as unavailable
			all[string(reason)] = status
		}
	}
	return all
}
