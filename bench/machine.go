package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// describe tells of the machine in general terms: what numbers depend on.
func (k kit) describe(ctx context.Context) (string, error) {
	p50, p99, err := syncs(k.out, 400)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %d cores, which clients and servers share; %s; appending 4 KiB and fdatasync on the disk of the data: p50 %s, p99 %s. %s.%s",
		runtime.GOOS, runtime.NumCPU(), runtime.Version(), millis(p50), millis(p99), strings.Join(k.versions(ctx), "; "), pressed()), nil
}

// pressed says how busy the machine was with other things in the last minute;
// nothing where the kernel does not tell.
func pressed() string {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return ""
	}
	if share, ok := pressure(string(text)); ok {
		return " In the minute before, somebody waited for a processor during " + share + " % of the time."
	}
	return ""
}

// pressure is the share of the last minute in which some task waited.
func pressure(text string) (share string, ok bool) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "some ") {
			continue
		}
		for _, f := range strings.Fields(line) {
			if share, ok := strings.CutPrefix(f, "avg60="); ok {
				return share, true
			}
		}
	}
	return "", false
}

// versions asks each program that is here.
func (k kit) versions(ctx context.Context) (all []string) {
	postgres, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(postgres) == 0 {
		postgres = []string{""}
	}
	for _, v := range []struct{ name, program, argument, before string }{
		{"etcd", k.etcd, "--version", "etcd Version: "},
		{"Redis", "redis-server", "--version", "Redis server v="},
		{"PostgreSQL", slices.Max(postgres), "--version", "postgres (PostgreSQL) "},
		{"Java", "java", "-version", "version "},
	} {
		text, err := exec.CommandContext(ctx, v.program, v.argument).CombinedOutput()
		if err != nil {
			continue // not here
		}
		if _, after, found := strings.Cut(string(text), v.before); found {
			all = append(all, v.name+" "+strings.Trim(strings.Fields(after)[0], `"`))
		}
	}
	if jars, err := filepath.Glob("/usr/share/java/zookeeper-[0-9]*.jar"); err == nil && len(jars) > 0 {
		version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(slices.Max(jars)), "zookeeper-"), ".jar")
		all = append(all, "ZooKeeper "+version)
	}
	return all
}

// syncs appends to a file n times, each time until it is on the disk.
func syncs(folder string, n int) (p50, p99 time.Duration, err error) {
	f, err := os.CreateTemp(folder, "sync-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	page := make([]byte, 4<<10)
	var all []time.Duration
	for range n {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, 0, err
		}
		if err := syscall.Fdatasync(int(f.Fd())); err != nil {
			return 0, 0, err
		}
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	return quantile(all, 0.5), quantile(all, 0.99), nil
}
