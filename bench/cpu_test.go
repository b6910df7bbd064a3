package main

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const line = "4242 (a (b) c) S 17 4242 4242 0 -1 4194560 8000 0 3 0 150 50 7 3 20 0 9 0 1 2 3\n"
	got, err := parseStat([]byte(line))
	if want := (stat{pid: 4242, parent: 17, cpu: 2100 * time.Millisecond}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "1 S 2", "1 (a) S 2 3", "x (a) S 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q passed", bad)
		}
	}
}

func TestParseMemory(t *testing.T) {
	got, err := parseMemory("Name:\tx\nVmHWM:\t   4096 kB\nVmRSS:\t    2048 kB\nRssAnon:\t 1024 kB\n")
	if want := (memory{rss: 2 << 20, anonymous: 1 << 20, highest: 4 << 20}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, err := parseMemory("Name:\tx\n"); err == nil {
		t.Error("a text without VmRSS passed")
	}
}

func TestPressure(t *testing.T) {
	const text = "some avg10=91.37 avg60=93.61 avg300=96.30 total=10267974558\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
	if got, ok := pressure(text); !ok || got != "93.61" {
		t.Errorf("%q, %t", got, ok)
	}
	if got, ok := pressure("full avg60=1.00\n"); ok {
		t.Errorf("%q of a text that does not tell", got)
	}
}

func TestStatsKnowThisProcess(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc here")
	}
	for _, s := range stats() {
		if s.pid == os.Getpid() && s.parent == os.Getppid() {
			return
		}
	}
	t.Error("this process is not among all processes")
}
