package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

const (
	// clockWarn and clockError are how far clocks may differ.
	clockWarn  = time.Second
	clockError = time.Minute
	// certificates that end within these.
	endsSoon   = 30 * 24 * time.Hour
	endsAtOnce = 7 * 24 * time.Hour
	// historyMost is how many revisions a store may keep.
	historyMost = 100_000
	// freeLittle is the free room under a data folder that gets a warning; below
	// store.FreeMin the server itself is tight.
	freeLittle = 1 << 30
)

// slowSources are clock sources that the kernel falls back to, and that cost much at
// every look.
var slowSources = []string{"acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies"}

func (r *report) clocks() {
	var clocked []*Server
	for _, s := range r.answered() {
		if s.Clocked {
			clocked = append(clocked, s)
		}
	}
	if len(clocked) == 0 {
		return
	}
	const do = "have chrony, ntpd or systemd-timesyncd set it: tokens after a lost store, certificates and logs go by it"
	// The least that two of them differ.
	var early, late *Server
	for _, s := range clocked {
		if early == nil || s.OffsetHigh < early.OffsetHigh {
			early = s
		}
		if late == nil || s.OffsetLow > late.OffsetLow {
			late = s
		}
	}
	if apart := late.OffsetLow - early.OffsetHigh; apart > clockWarn {
		r.add("clock", levelOf(apart), early.name()+", "+late.name(), do, "the clock of %s is %v ahead of that of %s", late.name(), rounded(apart), early.name())
	}
	// This machine against the nearest of them.
	least := time.Duration(0)
	for i, s := range clocked {
		if d := s.off(); i == 0 || d.Abs() < least.Abs() {
			least = d
		}
	}
	if least.Abs() > clockWarn {
		way := "behind"
		if least < 0 {
			way = "ahead of"
		}
		r.add("clock", levelOf(least.Abs()), "this machine", do, "its clock is %v %s that of every server", rounded(least.Abs()), way)
	}
	r.well("clock", everywhere, "the clocks of %s and of this machine are within %v", count(len(clocked), "server", "servers"), clockWarn)
	for _, s := range r.full() {
		if source := s.Status.GetHealth().GetClockSource(); slices.Contains(slowSources, source) {
			r.add("clock-source", Warn, s.name(), "see \"dmesg | grep -i clocksource\" for why the kernel gave up a better one", "reads the time from %s, which is slow and coarse", source)
		} else if source != "" {
			r.add("clock-source", OK, s.name(), "", "%s", source)
		}
	}
}

// off is the least that the server's clock differs from this machine's.
func (s *Server) off() time.Duration {
	switch {
	case s.OffsetLow > 0:
		return s.OffsetLow
	case s.OffsetHigh < 0:
		return s.OffsetHigh
	}
	return 0
}

func levelOf(apart time.Duration) string {
	if apart > clockError {
		return Error
	}
	return Warn
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }

func (r *report) stores() {
	for _, s := range r.answered() {
		st, h := s.Status, s.Status.GetHealth()
		if st.GetStore() == "memory" {
			r.add("memory", Warn, s.name(), "start it without --store memory where a lease matters", "keeps its cell in memory: a restart forgets every lease, and the token counter")
		}
		if st.GetRolledBack() {
			r.add("rolled-back", Error, s.name(), "find out what set the store back, compare what clients hold with \"pawl ls\"; then restart with --token-floor where a token is named (docs/guards.md)", "store_rolled_back: the log lost grants that were acknowledged")
		}
		if st.GetPartial() {
			continue
		}
		if st.GetTight() {
			r.add("room", Error, s.name(), "free room on the disk, or see why the store grew: pawl status", "acquires are refused for want of room")
		}
		if w := st.GetStoreWarning(); w != "" {
			r.add("compaction", Warn, s.name(), "compact it (docs/etcd.md)", "%s", w)
		} else if n := max(st.GetStoreHistory(), h.GetHistory()); n > historyMost {
			r.add("compaction", Warn, s.name(), "see in its log why the past is not removed", "the store keeps %d revisions of its past", n)
		}
		for _, a := range slices.Compact(slices.Sorted(slices.Values(h.GetAlarms()))) {
			r.add("alarms", Error, s.name(), alarmDo(a), "the store raises %s", a)
		}
		r.sizes(s, h)
	}
	if full := r.full(); len(full) > 0 {
		r.well("rolled-back", everywhere, "the log lost nothing that was acknowledged, as far as is known")
		r.well("room", everywhere, "there is room in every store: %s", roomOf(full))
		r.well("alarms", everywhere, "no store raises one")
		r.well("compaction", everywhere, "the past of the store is removed")
	}
}

func alarmDo(alarm string) string {
	switch {
	case strings.Contains(alarm, "NOSPACE"):
		return "compact and defragment etcd, then \"etcdctl alarm disarm\" (docs/etcd.md); servers with --peers do it by themselves while they have disk"
	case strings.Contains(strings.ToUpper(alarm), "CORRUPT"):
		return "stop that member, remove its folder, and let it join again empty"
	}
	return "see etcd's log"
}

func (r *report) sizes(s *Server, h *linkpb.Health) {
	used, quota, file := h.GetUsedBytes(), h.GetQuotaBytes(), h.GetFileBytes()
	switch {
	case quota <= 0:
	case used >= quota/10*8:
		r.add("room", Error, s.name(), "see what fills it: pawl status; acquires are refused from 80 % on", "its store uses %s of %s", bytesOf(used), bytesOf(quota))
	case used >= quota/10*6:
		r.add("room", Warn, s.name(), "see what fills it: pawl status; acquires are refused from 80 % on", "its store uses %s of %s", bytesOf(used), bytesOf(quota))
	case file >= quota/10*9:
		r.add("room", Warn, s.name(), "defragment it (etcdctl defrag); servers without --store etcd do it by themselves", "the file of its store has %s of %s, of which %s are in use", bytesOf(file), bytesOf(quota), bytesOf(used))
	}
	if free := h.GetDiskFreeBytes(); free > 0 && free < freeLittle && !s.Status.GetTight() {
		r.add("room", Warn, s.name(), "free room: acquires are refused below 256 MiB", "%s are free under its data folder", bytesOf(free))
	}
}

func roomOf(full []*Server) string {
	var each []string
	for _, s := range full {
		h := s.Status.GetHealth()
		if h.GetUsedBytes() == 0 {
			continue
		}
		text := fmt.Sprintf("%s %s", s.name(), bytesOf(h.GetUsedBytes()))
		if h.GetQuotaBytes() > 0 {
			text += " of " + bytesOf(h.GetQuotaBytes())
		}
		if h.GetDiskFreeBytes() > 0 {
			text += ", " + bytesOf(h.GetDiskFreeBytes()) + " free on the disk"
		}
		each = append(each, text)
	}
	if len(each) == 0 {
		return "how much is used is not known"
	}
	return strings.Join(each, "; ")
}

func bytesOf(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// doubts are file systems that do not keep what a cell was told is on the disk.
var doubts = map[string]string{
	"tmpfs":   "it is in memory, and gone with the machine",
	"ramfs":   "it is in memory, and gone with the machine",
	"overlay": "it is a container's own layer, and gone with the container",
	"nfs":     "a file server may acknowledge what is on no disk, and locks may be lost",
	"smb":     "a file server may acknowledge what is on no disk, and locks may be lost",
	"9p":      "another machine may acknowledge what is on no disk",
	"fuse":    "the program behind it may acknowledge what is on no disk",
}

func (r *report) folders() {
	known := 0
	for _, s := range r.full() {
		kind := s.Status.GetHealth().GetFileSystem()
		if kind == "" || s.Status.GetStore() == "etcd" {
			continue // a server on an etcd of others keeps its id there, and nothing else
		}
		known++
		if why, doubtful := doubts[kind]; doubtful {
			r.add("folder", Warn, s.name(), "give --data a folder on a disk of its own", "its data folder is on %s: %s", kind, why)
		}
	}
	if known > 0 {
		r.well("folder", everywhere, "data folders are on disks")
	}
}

func (r *report) certificates() {
	type place struct {
		Certificate
		where string
	}
	var all []place
	for i := range r.Servers {
		s := &r.Servers[i]
		for _, c := range s.Shown {
			all = append(all, place{c, s.name()})
		}
		for _, c := range s.Status.GetHealth().GetCertificates() {
			all = append(all, place{Certificate{Use: c.GetUse(), Subject: c.GetSubject(), Path: c.GetPath(), NotAfter: time.Unix(c.GetNotAfterUnix(), 0)}, s.name()})
		}
	}
	if !r.Own.NotAfter.IsZero() {
		all = append(all, place{r.Own, "this caller"})
	}
	first := time.Time{}
	told := map[string]bool{}
	for _, c := range all {
		if first.IsZero() || c.NotAfter.Before(first) {
			first = c.NotAfter
		}
		left := c.NotAfter.Sub(r.Now)
		if left >= endsSoon {
			continue
		}
		// What is in a file and was shown as well is one.
		key := fmt.Sprint(c.where, c.Use, c.NotAfter.Unix())
		if told[key] {
			continue
		}
		told[key] = true
		level, when := Warn, fmt.Sprintf("ends in %d days, on %s", int(left.Hours()/24), c.NotAfter.UTC().Format(time.DateOnly))
		if left < endsAtOnce {
			level = Error
		}
		if left < 0 {
			when = "has ended on " + c.NotAfter.UTC().Format(time.DateOnly)
		}
		what, do := c.Use+" "+c.Subject, "replace it; servers use a new file at the next connection (docs/security.md)"
		if c.Path != "" {
			what += " in " + c.Path
		}
		if strings.HasPrefix(c.Use, "authority") {
			do = "put the next authority beside it everywhere, then replace the certificates of the old one"
		}
		r.add("certificates", level, c.where, do, "its %s %s", what, when)
	}
	if !first.IsZero() {
		r.well("certificates", everywhere, "the first of %s ends on %s", count(len(all), "certificate", "certificates"), first.UTC().Format(time.DateOnly))
	}
}
