package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/cmd/pawl/internal/exit"
	"github.com/pawlproject/pawl/internal/fencing/table"
)

// explain runs "pawl explain" and returns its output and exit code.
func explain(t *testing.T, args ...string) (out string, code int, message string) {
	t.Helper()
	var b strings.Builder
	root := newRoot()
	root.SetOut(&b)
	root.SetErr(&b)
	root.SetArgs(append([]string{"explain"}, args...))
	code, message = exit.Of(root.Execute())
	return b.String(), code, message
}

func TestExplainStoreSaysWhatToDoFirst(t *testing.T) {
	out, code, _ := explain(t, "--store", "s3")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	do, table := strings.Index(out, "Do: Use objguard"), strings.Index(out, "STRATEGY")
	if do < 0 || table < do {
		t.Errorf("says %q", out)
	}
	if !strings.Contains(out, "WHAT IT IS") || !strings.Contains(out, "claimed first (objguard)") {
		t.Errorf("does not say what the strategies are: %q", out)
	}
	for _, word := range []string{"\nif: safe on conditions", "-: does not apply", "multi: two objects", "effect: read, then act outside"} {
		if !strings.Contains(out, word) {
			t.Errorf("does not say what the words of the table mean: %q is missing in %q", word, out)
		}
	}
	if strings.Contains(out, "lww") {
		t.Errorf("names a strategy that the store does not allow: %q", out)
	}
}

func TestExplainShowsConditionsAndSteps(t *testing.T) {
	out, code, _ := explain(t, "--strategy", "wait-out", "--operation", "overwrite")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{"safe if (2 conditions)", "Safe only if a holder cannot send after its own deadline", "2. A sends PUT x; it is on its way", "the lease of A ends, and B is granted", "=> the work of A (token 1) takes effect after"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
}

func TestExplainKnowsStoresByOtherNames(t *testing.T) {
	all, err := table.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]bool{}
	for _, s := range all.Stores {
		keys[s.Key] = true
	}
	for name, key := range storesLike {
		if !keys[key] || keys[name] {
			t.Errorf("%q is said to be like %q", name, key)
		}
	}
	as, _, _ := explain(t, "--store", "s3")
	if out, code, _ := explain(t, "--store", "MinIO"); code != 0 || out != as {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// Who asks about a store and an operation decides between strategies: steps are shown of
// the one that is asked for.
func TestExplainOperationOfAStoreIsShort(t *testing.T) {
	out, code, _ := explain(t, "--store", "s3", "--operation", "overwrite")
	if code != 0 || strings.Count(out, "\n") > 60 {
		t.Errorf("exit code %d, %d lines", code, strings.Count(out, "\n"))
	}
	for _, want := range []string{
		"Do: Use objguard", "cas-claim, overwrite: safe", "Safe only if every body holds a nonce", "What happens: the work of A (token 1)",
		`"pawl explain --strategy NAME --operation overwrite" shows`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
	if strings.Contains(out, "1. A") || strings.Contains(out, "does not apply") {
		t.Errorf("shows steps, or what does not apply: %q", out)
	}
}

// A figure or a list of steps says why a version comes back, not only that a write is done.
func TestExplainStepsSayWhatMatters(t *testing.T) {
	out, _, _ := explain(t, "--strategy", "etag-s3", "--operation", "overwrite")
	if want := "these are the bytes that A had read, so that the ETag is 1 again"; !strings.Contains(out, want) {
		t.Errorf("%q is missing in %q", want, out)
	}
}

func TestExplainCountsOneCondition(t *testing.T) {
	if out, _, _ := explain(t, "--strategy", "opener", "--operation", "append"); !strings.Contains(out, "safe if (1 condition)\n") {
		t.Errorf("says %q", out)
	}
}

func TestExplainJSONHasEveryVerdict(t *testing.T) {
	out, code, _ := explain(t, "--json")
	if code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var all []struct {
		Strategy, Operation, Verdict string
		Condition                    *string
		Trace                        []string
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 100 {
		t.Errorf("%d verdicts", len(all))
	}
	for _, v := range all {
		if !slices.Contains([]string{"safe", "if", "unsafe"}, v.Verdict) || v.Condition == nil || v.Trace == nil {
			t.Errorf("%+v", v)
		}
		if (v.Verdict == "safe") != (len(v.Trace) == 0) || (v.Verdict == "if") != (*v.Condition != "") {
			t.Errorf("%+v: the trace or the condition does not fit the verdict", v)
		}
	}
}

func TestExplainRefusesUnknownWordsAndNamesKnownOnes(t *testing.T) {
	for _, c := range []struct{ flag, word, known string }{
		{"--store", "tape", "s3"},
		{"--strategy", "hope", "cas-claim"},
		{"--operation", "rename", "overwrite"},
		{"--operation", "", "overwrite"},
	} {
		_, code, message := explain(t, c.flag, c.word)
		if code != exit.CodeUsage || !strings.Contains(message, c.known) {
			t.Errorf("%s %q: exit code %d, %q", c.flag, c.word, code, message)
		}
	}
}
