package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// row is something to measure that can be chosen by its name.
type row struct {
	name, about string
	// cost is about how long it takes.
	cost func(plan) time.Duration
	run  func(*full, context.Context) error
	// keys are the aims that it looks at.
	keys []string
}

// rows in the order in which they run.
var rows = []row{
	{
		"pairs", "callers with a name each: pawl, etcd, ZooKeeper, Redis, PostgreSQL",
		func(p plan) time.Duration { return 25*time.Second + p.lasts(len(p.callers), 6) + p.lasts(1, 1) },
		(*full).pairs,
		[]string{"one", "pairs", "redis"},
	},
	{
		"turns", "waiters on one name: pawl, etcd, ZooKeeper, Redis, PostgreSQL",
		func(p plan) time.Duration { return 20*time.Second + p.lasts(1, 6) },
		(*full).turns,
		[]string{"turns-etcd", "turns-zookeeper"},
	},
	{
		"clients", "clients of one caller each: pawl, etcd",
		func(p plan) time.Duration { return 5*time.Second + p.lasts(1, 2) },
		(*full).clients,
		[]string{"clients"},
	},
	{
		"tls", "pawl and etcd, with and without TLS",
		func(p plan) time.Duration { return 10*time.Second + p.lasts(4, 2) },
		(*full).tls, nil,
	},
	{
		"cluster", "pawl and etcd's Mutex, both on one etcd of three members",
		func(p plan) time.Duration { return 15*time.Second + p.lasts(3, 2) },
		(*full).cluster,
		[]string{"cluster"},
	},
	{
		"quorum", "a quorum of three pawl servers, and etcd's Mutex on three members",
		func(p plan) time.Duration { return 15*time.Second + p.lasts(3, 2) },
		(*full).quorum,
		[]string{"quorum"},
	},
	{
		"sessions", "many sessions that renew",
		func(p plan) time.Duration { return 30*time.Second + 2*p.settle + 2*p.steady + p.profiled },
		(*full).sessions,
		[]string{"sessions"},
	},
	{
		"million", "a million held leases: memory, renewals, take-over",
		func(p plan) time.Duration { return 2*time.Minute + p.settle + p.steady + p.profiled },
		(*full).million,
		[]string{"memory", "take-over"},
	},
	{
		"followed", "as many, with standbys that follow: memory, take-over",
		func(p plan) time.Duration {
			return 2 * (90*time.Second + p.settle + time.Duration(2*p.takeOvers)*followedCycle)
		},
		(*full).followed,
		[]string{"followed"},
	},
	{
		"outage", "the only server, or the active one, is killed, and stopped",
		func(p plan) time.Duration {
			return 30*time.Second + time.Duration(p.kills)*(2*outageAlone+outageStandby)
		},
		(*full).outage,
		[]string{"killed", "killed-alone", "stopped", "stopped-alone"},
	},
	{
		"guard", "transactions of one holder with and without pgguard",
		func(p plan) time.Duration { return 10*time.Second + p.lasts(1, 3) },
		(*full).guards,
		[]string{"guard"},
	},
}

// choose finds rows by their names, separated by commas; empty: all.
func choose(names string) ([]row, error) {
	if names == "" {
		return rows, nil
	}
	var chosen []row
	for _, name := range strings.Split(names, ",") {
		i := slices.IndexFunc(rows, func(r row) bool { return r.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no row %q", name)
		}
		chosen = append(chosen, rows[i])
	}
	return chosen, nil
}

// full is a run over rows.
type full struct {
	kit    kit
	plan   plan
	report *report
	// folder is the row's, where its servers keep their data.
	folder string
	// ends are what ends the row's servers and clients, last first.
	ends []func()
	// notes say what the row left out.
	notes []string
}

func (f *full) atEnd(end func()) { f.ends = append(f.ends, end) }

func (f *full) end() {
	for _, end := range slices.Backward(f.ends) {
		end()
	}
	f.ends = nil
}

// startMax bounds the start of one server.
const startMax = time.Minute

// row runs one row in a folder of its own. What is not installed is left out;
// anything else that fails, fails the run.
func (f *full) row(ctx context.Context, r row) (err error) {
	fmt.Fprintf(f.kit.to, "%s: %s\n", r.name, r.about)
	folder, remove, err := f.kit.data()
	if err != nil {
		return err
	}
	f.folder, f.notes = folder, nil
	err = r.run(f, ctx)
	f.end()
	var gap lacking
	if errors.As(err, &gap) {
		f.lack(gap, r.keys...)
		err = nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w (the servers' data and logs are in %s)", r.name, err, folder)
	}
	remove()
	if len(f.notes) > 0 {
		f.report.parts[r.name] += "\nLeft out: " + strings.Join(f.notes, "; ") + ".\n"
	}
	return nil
}

// lack notes why something is left out, and which aims are not looked at for
// that.
func (f *full) lack(why lacking, keys ...string) {
	fmt.Fprintf(f.kit.to, "  left out: %v\n", why)
	f.notes = append(f.notes, why.Error())
	for _, key := range keys {
		f.report.missing[key] = why.Error()
	}
}

// try starts a peer; false when it is not installed, and left out.
func (f *full) try(err error, keys ...string) (bool, error) {
	var gap lacking
	if errors.As(err, &gap) {
		f.lack(gap, keys...)
		return false, nil
	}
	return err == nil, err
}

// contests runs them and keeps the table as a part of the page.
func (f *full) contests(ctx context.Context, name string, contests []contest) (*table, error) {
	t, err := f.plan.run(ctx, f.kit.to, contests)
	if err != nil {
		return nil, err
	}
	t.print(f.kit.to)
	f.report.parts[name] = t.markdown()
	f.report.lost(t)
	return t, nil
}
