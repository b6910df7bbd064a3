package main

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	var j judge
	a := held{name: "a", token: 7}
	if err := j.granted(a, 1); err != nil {
		t.Fatal(err)
	}
	if err := j.granted(held{name: "a", token: 8}, 2); err == nil || !strings.Contains(err.Error(), "while caller 1 held it") {
		t.Errorf("%v, want a second holder to be found", err)
	}
	j.released(a)
	if err := j.granted(held{name: "a", token: 7}, 2); err == nil || !strings.Contains(err.Error(), "from 7 to 7") {
		t.Errorf("%v, want a token that stands still to be found", err)
	}
	if err := j.granted(held{name: "a", token: 9}, 2); err != nil {
		t.Errorf("%v, want a rising token to pass", err)
	}
	if err := j.granted(held{name: "b"}, 2); err != nil {
		t.Errorf("%v, want another name without a token to pass", err)
	}
	for range 2 {
		if err := j.granted(held{}, 1); err != nil {
			t.Errorf("%v, want what excludes nobody to pass", err)
		}
	}
}
