package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	tests := []struct {
		name   string
		events string
		code   int
		want   counts
		shows  []string
		hides  []string
	}{
		{
			name: "passes are counted and not shown",
			events: `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}`,
			want:  counts{passed: 1},
			shows: []string{"ok  \tp\t0.1s"},
			hides: []string{"chatter"},
		},
		{
			name: "a failure shows its output, a skip its reason",
			events: `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"why it failed\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"why it was skipped\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}`,
			code:  1,
			want:  counts{failed: 1, skipped: 1},
			shows: []string{"why it failed", "why it was skipped", "FAIL\tp\t0.1s"},
			hides: []string{"=== RUN"},
		},
		{
			name: "a package that does not build is a failure",
			events: `{"ImportPath":"p","Action":"build-output","Output":"undefined: x\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p"}`,
			code:  1,
			want:  counts{failed: 1},
			shows: []string{"undefined: x", "[build failed]"},
		},
		{
			name: "a test that never ended is shown",
			events: `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: timed out\n"}
{"Action":"fail","Package":"p"}`,
			code:  1,
			want:  counts{failed: 1},
			shows: []string{"panic: timed out"},
		},
		{
			name:   "a killed run is a failure",
			events: `{"Action":"start","Package":"p"}`,
			code:   1,
			want:   counts{failed: 1},
			shows:  []string{"did not end"},
		},
		{
			name:   "a line that is no event is shown",
			events: "go: no such tool\n",
			code:   1,
			want:   counts{failed: 1},
			shows:  []string{"go: no such tool"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out strings.Builder
			r := newReport(&out)
			if err := r.read(strings.NewReader(test.events)); err != nil {
				t.Fatal(err)
			}
			if got := r.finish(test.code); got != test.want {
				t.Errorf("counted %v, want %v", got, test.want)
			}
			for _, s := range test.shows {
				if !strings.Contains(out.String(), s) {
					t.Errorf("does not show %q:\n%s", s, &out)
				}
			}
			for _, s := range test.hides {
				if strings.Contains(out.String(), s) {
					t.Errorf("shows %q:\n%s", s, &out)
				}
			}
		})
	}
}

func TestTallySumsRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tally")
	for _, c := range []counts{{1, 2, 3}, {10, 20, 30}} {
		if err := c.appendTo(path); err != nil {
			t.Fatal(err)
		}
	}
	got, err := readTally(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := (counts{11, 22, 33}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRunKeepsTheExitCode(t *testing.T) {
	if code, err := run([]string{"sh", "-c", "exit 3"}, ""); code != 3 || err != nil {
		t.Errorf("got %d, %v; want 3", code, err)
	}
	if code, err := run([]string{"/no/such/command"}, ""); code == 0 || err == nil {
		t.Errorf("got %d, %v; want a failure", code, err)
	}
}
