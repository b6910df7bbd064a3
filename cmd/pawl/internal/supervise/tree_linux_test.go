package supervise

import (
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	const rest = " 0 0 0 0 0 0 0 0 0 20 0 1 0 "
	line := func(name string) string {
		return "7 (" + name + ") S 3 5 2 34816 5 4194304" + strings.Repeat(" 0", 12) + " 987654 1 2"
	}
	for _, name := range []string{"sh", "a b", ") R 1 1 1", "((", "\n) Z 9 9 9 ", ""} {
		p, ok := parseStat(7, []byte(line(name)))
		if want := (process{pid: 7, ppid: 3, pgrp: 5, session: 2, state: 'S', start: "987654"}); !ok || p != want {
			t.Errorf("name %q: %+v, %v; want %+v", name, p, ok, want)
		}
	}
	for _, bad := range []string{"", "7", "7 (sh", "7 (sh) S", "7 (sh) S x y z" + rest + "1"} {
		if p, ok := parseStat(7, []byte(bad)); ok {
			t.Errorf("%q gives %+v", bad, p)
		}
	}
	if p, ok := stat(os.Getpid()); !ok || p.ppid != os.Getppid() || !p.alive() {
		t.Errorf("this process: %+v, %v", p, ok)
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("7 (sh) S 3 5 2 34816 5 4194304 0 0 0 0 0 0 0 0 0 0 0 0 987654 1 2"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseStat(7, b); ok && (p.pid != 7 || p.start == "") {
			t.Errorf("%q gives %+v", b, p)
		}
	})
}

// The number of a process that has ended may be another one's by the time of the kill.
func TestReusedPIDIsNotKilled(t *testing.T) {
	p := sleeper(t)
	earlier := p
	earlier.start = "1"
	earlier.kill()
	// The first signal that ends it is the one that it is reported by.
	if err := unix.Kill(p.pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(p.pid, &ws, 0, nil); err != nil || ws.Signal() != unix.SIGTERM {
		t.Errorf("a later process of the same number ended with %v, %v", ws.Signal(), err)
	}
}

func TestDescendants(t *testing.T) {
	all := make(map[int]process)
	for pid, ppid := range map[int]int{2: 1, 3: 2, 4: 3, 5: 1, 6: 5, 7: 9, 8: 4} {
		all[pid] = process{pid: pid, ppid: ppid}
	}
	for _, test := range []struct {
		root  int
		spare []int
		want  []int
	}{
		{1, nil, []int{2, 3, 4, 5, 6, 8}},
		{1, []int{3}, []int{2, 5, 6}},
		{2, nil, []int{3, 4, 8}},
		{8, nil, nil},
	} {
		spare := make(map[int]bool)
		for _, pid := range test.spare {
			spare[pid] = true
		}
		var got []int
		for _, p := range descendants(all, test.root, spare) {
			got = append(got, p.pid)
		}
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("below %d without %v: %v, want %v", test.root, test.spare, got, test.want)
		}
	}
}

func TestCgroupFolder(t *testing.T) {
	const (
		v1      = "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
		hybrid  = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
		unified = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup rw,nsdelegate\n"
		part    = "50 23 0:28 /box/a /mnt/part\\040of\\134it rw - cgroup2 cgroup rw\n"
	)
	for _, test := range []struct{ mounts, self, want string }{
		{v1 + hybrid, "4:cpu:/\n0::/\n", "/sys/fs/cgroup/unified"},
		{v1 + hybrid, "0::/user.slice/x\n", "/sys/fs/cgroup/unified/user.slice/x"},
		{unified, "0::/a/b\n", "/sys/fs/cgroup/a/b"},
		{part, "0::/box/a/b\n", `/mnt/part of\it/b`},
		{part, "0::/box/a\n", `/mnt/part of\it`},
		{part, "0::/box/ab\n", ""},
		{part + unified, "0::/other\n", "/sys/fs/cgroup/other"},
		{v1, "0::/\n", ""},
		{unified, "4:cpu:/\n", ""},
		{"nonsense\n", "0::/\n", ""},
	} {
		got, err := cgroupFolder(strings.NewReader(test.mounts), strings.NewReader(test.self))
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%q in %q: %q, %v; want %q", test.self, test.mounts, got, err, test.want)
		}
	}
}
