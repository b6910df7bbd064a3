package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawlproject/pawl/internal/clock"
)

// verdict is what came of a run.
type verdict struct {
	overlaps    []string
	stale, lost int
	longest     gap
	p99         time.Duration
	// samples counts the changes of faults, grants and writes what was judged, early the
	// leases that ended without a reason.
	samples, grants, leases, writes, early int
	// refused counts writes that came too late, rides leases that outlived their deadline,
	// broken those that were broken by force.
	refused, rides, broken int
	// own is how often processes ended by themselves, for want of room or otherwise.
	own int
	// worstGaps are the longest samples, odd the processes that ended by themselves.
	worstGaps, odd []string
	// since is how long before its end the run saw its last grant.
	since time.Duration
}

// shownMost bounds what is printed of one kind of finding.
const shownMost = 10

// readRecords reads what all workers noted. The last line of one that was killed may
// be cut off.
func readRecords(folder string) ([]record, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	var all []record
	for _, path := range files {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewReader(f); ; {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			var r record
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, errors.Join(fmt.Errorf("%s holds %q: %w", path, line, err), f.Close())
			}
			all = append(all, r)
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// judge looks at all that the workers saw and the resources have.
func (r *runner) judge(records []record, changes []change, from, until moment) (v verdict, err error) {
	var grants []moment
	acknowledged := map[string][]entry{}
	for _, x := range records {
		switch x.Kind {
		case granted:
			grants = append(grants, x.At)
		case wrote:
			acknowledged[x.Name] = append(acknowledged[x.Name], entry{x.Token, x.Balance})
			v.writes++
		case refused:
			v.refused++
		case rode:
			v.rides++
		case broke:
			v.broken++
		}
	}
	slices.Sort(grants)
	v.leases = len(grants)
	v.overlaps, v.early = findOverlaps(records)
	for name, acked := range acknowledged {
		res, err := openResource(r.folder, name)
		if err != nil {
			return v, err
		}
		entries, balance, err := res.all(context.Background())
		if err = errors.Join(err, res.close()); err != nil {
			return v, err
		}
		stale, lost := tally(entries, balance, acked)
		v.stale += stale
		v.lost += lost
		if stale+lost > 0 {
			v.odd = append(v.odd, fmt.Sprintf("%q has %d stale writes and lost %d", name, stale, lost))
		}
	}
	samples := r.samples(changes, grants, from, until)
	v.samples = len(samples)
	v.longest, v.p99 = worst(samples)
	slices.SortFunc(samples, func(a, b gap) int { return int(b.length() - a.length()) })
	for _, g := range samples[:min(shownMost, len(samples))] {
		v.worstGaps = append(v.worstGaps, fmt.Sprintf("%v from %.3fs on, after %s", g.length().Round(time.Millisecond), (g.from-from).Seconds(), g.after))
	}
	for _, at := range grants {
		if at <= until {
			v.since = until - at
			v.grants++
		}
	}
	return v, nil
}

// check says what fails the run.
func (v verdict) check() error {
	switch {
	case len(v.overlaps)+v.stale+v.lost > 0:
		return errors.New("the cell broke a promise")
	case len(v.odd) > 0:
		return errors.New("a process ended by itself")
	case v.grants == 0 || v.writes == 0:
		return errors.New("nothing was granted or written: nothing was shown")
	case v.since > calmLast:
		return fmt.Errorf("nothing was granted for %v when all was well again", v.since)
	}
	return nil
}

func (v verdict) print(out io.Writer, err error) {
	some := func(what string, lines []string) {
		for i, line := range lines {
			if i == shownMost {
				fmt.Fprintf(out, "%s: and %d more\n", what, len(lines)-i)
				break
			}
			fmt.Fprintf(out, "%s: %s\n", what, line)
		}
	}
	some("unavailable", v.worstGaps)
	some("overlap", v.overlaps)
	some("found", v.odd)
	if err != nil {
		fmt.Fprintln(out, "failed:", err)
	}
	fmt.Fprintf(out, "leases: %d broken: %d rides: %d writes: %d refused as stale: %d changes of faults: %d leases that ended early: %d processes that ended by themselves: %d\n",
		v.leases, v.broken, v.rides, v.writes, v.refused, v.samples, v.early, v.own)
	fmt.Fprintf(out, "overlaps: %d stale writes accepted: %d lost: %d unavailable max: %.1fs p99: %.1fs\n",
		len(v.overlaps), v.stale, v.lost, v.longest.length().Seconds(), v.p99.Seconds())
}

// recorder appends to the records of a worker's process.
type recorder struct {
	file *os.File
	who  string
}

// newRecorder begins a file of its own for every process of a name.
func newRecorder(folder, who string) (*recorder, error) {
	for i := range 10000 {
		path := filepath.Join(folder, "records", fmt.Sprintf("%s-%d.jsonl", who, i))
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			return &recorder{f, who}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, errors.New("too many files of records")
}

// add writes a line at once: it is there when the process is killed.
func (r *recorder) add(x record) {
	if x.At == 0 {
		x.At = clock.Boottime()
	}
	x.Who = strings.TrimSuffix(r.who+"/"+x.Who, "/")
	line, err := json.Marshal(x)
	if err == nil {
		_, err = r.file.Write(append(line, '\n'))
	}
	if err != nil {
		panic(fmt.Sprintf("a record cannot be kept: %v", err))
	}
}
