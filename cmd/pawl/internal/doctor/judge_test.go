package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawlproject/pawl/api/linkpb"
)

var now = time.Unix(1_800_000_000, 0)

// three are servers of a quorum that is well: n1 is active, and its member leads.
func three() Facts {
	f := Facts{Now: now}
	for i := range 3 {
		s := Server{
			Address: fmt.Sprintf("127.0.0.1:%d", i+1), Took: time.Millisecond,
			Clocked: true, OffsetLow: -time.Millisecond, OffsetHigh: time.Millisecond,
			Status: &linkpb.StatusResponse{
				Cell: "default-1", Role: "standby", ActiveLink: "127.0.0.1:1", ActiveTtlNano: int64(3 * time.Second), Store: "quorum",
				Version: "1.0.0", Followed: 7, BehindNano: int64(time.Second), WallUnixNano: 1,
				Health: &linkpb.Health{
					Node: fmt.Sprintf("n%d", i+1), ClockSource: "tsc", FileSystem: "ext4",
					UsedBytes: 1 << 20, FileBytes: 2 << 20, QuotaBytes: 2 << 30, DiskFreeBytes: 40 << 30,
					Certificates: []*linkpb.Certificate{{Use: "certificate among peers", Subject: "CN=n", Path: "/n.pem", NotAfterUnix: now.Add(90 * 24 * time.Hour).Unix()}},
				},
			},
		}
		for j := range 3 {
			s.Members = append(s.Members, &linkpb.Member{
				Name: fmt.Sprintf("n%d", j+1), Url: fmt.Sprintf("http://127.0.0.1:%d", 10+j), Role: "voter",
				Leads: j == 0, Answers: true, Applied: 9000, Asked: i == j,
			})
		}
		f.Servers = append(f.Servers, s)
	}
	f.Servers[0].Status.Role, f.Servers[0].Status.Active, f.Servers[0].Status.Followed = "active", true, 0
	return f
}

// eachMember changes a member in the view of every server.
func eachMember(f *Facts, name string, change func(*linkpb.Member)) {
	for _, s := range f.Servers {
		for _, m := range s.Members {
			if m.Name == name {
				change(m)
			}
		}
	}
}

func drop(f *Facts, i int) {
	f.Servers[i] = Server{Address: f.Servers[i].Address, Failed: "no server answers at " + f.Servers[i].Address}
	eachMember(f, fmt.Sprintf("n%d", i+1), func(m *linkpb.Member) { m.Answers = false })
}

func health(f *Facts, i int) *linkpb.Health { return f.Servers[i].Status.Health }

// Each change of a cell that is well gives exactly these findings, and what is well is
// told beside them.
func TestJudge(t *testing.T) {
	tests := []struct {
		name   string
		change func(f *Facts)
		want   []string // "LEVEL CHECK WHERE: part of the text"
	}{
		{"all is well", func(*Facts) {}, nil},
		{"a server is down", func(f *Facts) { drop(f, 2) }, []string{
			"error reach 127.0.0.1:3: no server answers", "error members n3: does not answer n1, n2", "error quorum cell: no member may be lost: 2 of 3",
		}},
		{"two servers are down", func(f *Facts) {
			drop(f, 1)
			drop(f, 2)
			eachMember(f, "n1", func(m *linkpb.Member) { m.Leads = false })
			f.Servers[0].Status.Active, f.Servers[0].Status.ActiveLink, f.Servers[0].Status.Role = false, "", "waiting"
		}, []string{
			"error reach 127.0.0.1:2:", "error reach 127.0.0.1:3:", "error members n2: does not answer n1", "error members n3: does not answer n1",
			"error leader cell: no member leads", "error quorum cell: 1 of 3 members answer, and 2 are needed", "error active cell: no server is active, and none",
		}},
		{"nobody answers", func(f *Facts) {
			for i := range f.Servers {
				f.Servers[i] = Server{Address: f.Servers[i].Address, Failed: "refused"}
			}
		}, []string{"error reach 127.0.0.1:1:", "error reach 127.0.0.1:2:", "error reach 127.0.0.1:3:"}},
		{"the active server's store is silent", func(f *Facts) {
			f.Servers[0].Status, f.Servers[0].Alive, f.Servers[0].Failed = nil, true, "no answer in time"
		}, []string{"error reach 127.0.0.1:1: answers, and cannot tell", "error active cell: no server that answers is active"}},
		{"a caller that nobody knows", func(f *Facts) {
			f.Servers = f.Servers[:1]
			f.Servers[0] = Server{Address: "127.0.0.1:1", Refused: true, Failed: "who is it"}
		}, []string{"error rights 127.0.0.1:1: answers, and does not let this caller in: who is it"}},
		{"a network that is cut on one way", func(f *Facts) { f.Servers[1].Members[2].Answers = false }, []string{
			"error members n3: answers n1, n3, and not n2",
		}},
		{"a member is behind", func(f *Facts) { eachMember(f, "n2", func(m *linkpb.Member) { m.Applied = 10 }) }, []string{
			"warn members n2: is 8990 entries",
		}},
		{"a learner", func(f *Facts) { eachMember(f, "n3", func(m *linkpb.Member) { m.Role = "learner" }) }, []string{
			"error quorum cell: no member may be lost", "warn members n3: catches up", "warn quorum cell: there are 2 members",
		}},
		{"one that is expected", func(f *Facts) {
			for i := range f.Servers {
				f.Servers[i].Members = append(f.Servers[i].Members, &linkpb.Member{Name: "n4", Url: "http://127.0.0.1:13", Role: "expected"})
			}
		}, []string{"warn members n4: is expected"}},
		{"another member leads than the active server's", func(f *Facts) {
			eachMember(f, "n1", func(m *linkpb.Member) { m.Leads = false })
			eachMember(f, "n3", func(m *linkpb.Member) { m.Leads = true })
		}, []string{"warn leader cell: n3 leads, and the server of n1 is active"}},
		{"servers differ on the leader", func(f *Facts) {
			f.Servers[2].Members[0].Leads, f.Servers[2].Members[2].Leads = false, true
		}, []string{"warn leader cell: servers differ on which member leads: n1 for n1, n2; n3 for n3"}},
		{"a server that --servers does not name", func(f *Facts) { f.Servers = f.Servers[:2] }, []string{
			"warn servers n3: runs",
		}},
		{"a quorum of one", func(f *Facts) {
			f.Servers = f.Servers[:1]
			f.Servers[0].Members = f.Servers[0].Members[:1]
		}, []string{"warn quorum cell: there is one member"}},
		{"two active servers", func(f *Facts) { f.Servers[1].Status.Active = true }, []string{"warn active cell: n1 (127.0.0.1:1) and n2 (127.0.0.1:2)"}},
		{"servers of two cells", func(f *Facts) { f.Servers[1].Status.Cell = "default-2" }, []string{"error cell n2 (127.0.0.1:2): is of the cell default-2"}},
		{"a drill", func(f *Facts) { f.Servers[0].Status.DrillNano = int64(time.Minute) }, []string{"warn drill n1 (127.0.0.1:1): a drill is on: the cell answers as one that lost its quorum for 1m0s more"}},
		{"a standby that has read nothing", func(f *Facts) { f.Servers[1].Status.Followed = 0 }, []string{"warn standbys n2 (127.0.0.1:2): has not read"}},
		{"a standby that is behind", func(f *Facts) { f.Servers[1].Status.BehindNano = int64(31 * time.Second) }, []string{"warn standbys n2 (127.0.0.1:2): is behind: it read the log to its end 31s ago"}},
		{"versions differ", func(f *Facts) { f.Servers[2].Status.Version = "1.1.0" }, []string{"warn versions cell: servers differ: n1 (127.0.0.1:1), n2 (127.0.0.1:2): 1.0.0; n3 (127.0.0.1:3): 1.1.0"}},
		{"an older server", func(f *Facts) {
			f.Servers[1].Status.WallUnixNano, f.Servers[1].Status.Health, f.Servers[1].Clocked = 0, nil, false
		}, []string{"warn versions 127.0.0.1:2: is older than this program"}},
		{"a clock", func(f *Facts) {
			f.Servers[1].OffsetLow, f.Servers[1].OffsetHigh = 2*time.Second, 2010*time.Millisecond
		}, []string{"warn clock n1 (127.0.0.1:1), n2 (127.0.0.1:2): the clock of n2 (127.0.0.1:2) is 2s ahead of that of n1"}},
		{"a slow answer is no wrong clock", func(f *Facts) { f.Servers[1].OffsetLow, f.Servers[1].OffsetHigh = -2*time.Second, 3*time.Second }, nil},
		{"this machine's clock", func(f *Facts) {
			for i := range f.Servers {
				f.Servers[i].OffsetLow, f.Servers[i].OffsetHigh = 2*time.Minute, 2*time.Minute+time.Millisecond
			}
		}, []string{"error clock this machine: its clock is 2m0s behind that of every server"}},
		{"a clock source", func(f *Facts) { health(f, 1).ClockSource = "acpi_pm" }, []string{"warn clock-source n2 (127.0.0.1:2): reads the time from acpi_pm"}},
		{"memory", func(f *Facts) { f.Servers[0].Status.Store = "memory" }, []string{"warn memory n1 (127.0.0.1:1): keeps its cell in memory"}},
		{"rolled back", func(f *Facts) { f.Servers[0].Status.RolledBack = true }, []string{"error rolled-back n1 (127.0.0.1:1): store_rolled_back"}},
		{"tight", func(f *Facts) { f.Servers[0].Status.Tight = true }, []string{"error room n1 (127.0.0.1:1): acquires are refused"}},
		{"a store that fills", func(f *Facts) { health(f, 1).UsedBytes = 1300 << 20 }, []string{"warn room n2 (127.0.0.1:2): its store uses 1.3 GiB of 2.0 GiB"}},
		{"a store that is full", func(f *Facts) { health(f, 1).UsedBytes = 1700 << 20 }, []string{"error room n2 (127.0.0.1:2): its store uses 1.7 GiB"}},
		{"a file that is wasteful", func(f *Facts) { health(f, 1).FileBytes = 1900 << 20 }, []string{"warn room n2 (127.0.0.1:2): the file of its store has 1.9 GiB"}},
		{"little room", func(f *Facts) { health(f, 1).DiskFreeBytes = 600 << 20 }, []string{"warn room n2 (127.0.0.1:2): 600.0 MiB are free"}},
		{"an alarm, from each view once", func(f *Facts) { health(f, 2).Alarms = []string{"NOSPACE of the member n1", "NOSPACE of the member n1"} }, []string{"error alarms n3 (127.0.0.1:3): the store raises NOSPACE of the member n1"}},
		{"history", func(f *Facts) { health(f, 0).History = 200_000 }, []string{"warn compaction n1 (127.0.0.1:1): the store keeps 200000 revisions"}},
		{"nobody is active, and one says why", func(f *Facts) {
			for i := range f.Servers {
				f.Servers[i].Status.Role, f.Servers[i].Status.Active, f.Servers[i].Status.ActiveLink = "waiting", false, ""
			}
			f.Servers[1].Status.Waits = "a majority"
		}, []string{"error active cell: no server is active, and none is known to be: nothing is granted"}},
		{"what the store warns of", func(f *Facts) { f.Servers[0].Status.StoreWarning = "compact it" }, []string{"warn compaction n1 (127.0.0.1:1): compact it"}},
		{"a folder in memory", func(f *Facts) { health(f, 0).FileSystem = "tmpfs" }, []string{"warn folder n1 (127.0.0.1:1): its data folder is on tmpfs"}},
		{"insecure", func(f *Facts) { health(f, 0).Insecure = true }, []string{"warn security n1 (127.0.0.1:1): runs with --insecure"}},
		{"reached by others without TLS", func(f *Facts) { f.Servers[1].Address = "db.example:7420" }, []string{"warn security n2 (db.example:7420): is reached without TLS, and everybody"}},
		{"a certificate that ends soon", func(f *Facts) { health(f, 0).Certificates[0].NotAfterUnix = now.Add(8 * 24 * time.Hour).Unix() }, []string{
			"warn certificates n1 (127.0.0.1:1): its certificate among peers CN=n in /n.pem ends in 8 days, on 2027-01-23",
		}},
		{"a certificate that ends at once", func(f *Facts) {
			f.Servers[1].Shown = []Certificate{{Use: "certificate", Subject: "s", NotAfter: now.Add(6 * 24 * time.Hour)}}
		}, []string{
			"error certificates n2 (127.0.0.1:2): its certificate s ends in 6 days",
		}},
		{"an authority that has ended, shown and in a file", func(f *Facts) {
			f.Servers[1].Shown = []Certificate{{Use: "authority", Subject: "s", NotAfter: now.Add(-time.Hour)}}
			health(f, 1).Certificates = append(health(f, 1).Certificates, &linkpb.Certificate{Use: "authority", Subject: "CN=s", Path: "/s.pem", NotAfterUnix: now.Add(-time.Hour).Unix()})
		}, []string{"error certificates n2 (127.0.0.1:2): its authority s has ended on"}},
		{"the caller's certificate", func(f *Facts) { f.Own = Certificate{Use: "certificate", Subject: "me", NotAfter: now.Add(time.Hour)} }, []string{"error certificates this caller: its certificate me ends in 0 days"}},
		{"without the right", func(f *Facts) {
			for i := range f.Servers {
				f.Servers[i].Status.Partial, f.Servers[i].Status.Health, f.Servers[i].Members, f.Servers[i].MembersDenied = true, nil, nil, true
			}
		}, nil},
		{"an etcd of others", func(f *Facts) { external(f, "", "") }, nil},
		{"an etcd of others with a member down", func(f *Facts) { external(f, "", "no answer in time") }, []string{
			"error endpoints e2:2379: cannot be reached by 127.0.0.1:1: no answer in time", "error quorum cell: no member may be lost: 2 of 3 endpoints",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := three()
			tt.change(&f)
			var got []string
			for _, x := range Judge(f) {
				if x.Level == OK {
					continue
				}
				got = append(got, x.Level+" "+x.Check+" "+x.Where+": "+x.Text)
				if x.Do == "" {
					t.Errorf("%s: nothing to do", x.Text)
				}
			}
			if !slices.EqualFunc(got, tt.want, strings.HasPrefix) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
			}
		})
	}
}

// external makes the cell one on an etcd of three members, seen by one server.
func external(f *Facts, first, second string) {
	f.Servers = f.Servers[:1]
	s := &f.Servers[0]
	s.Members, s.Status.Store = nil, "etcd"
	h := s.Status.Health
	h.Node, h.FileSystem, h.DiskFreeBytes = "", "tmpfs", 0
	for i, failed := range []string{first, second, ""} {
		h.Endpoints = append(h.Endpoints, &linkpb.Endpoint{Address: fmt.Sprintf("e%d:2379", i+1), Failed: failed, Leads: i == 0, Version: "3.6.0"})
	}
}

// What could not be looked at for want of a right is said, and is nothing that needs a
// hand.
func TestJudgeSaysWhatItDidNotSee(t *testing.T) {
	f := three()
	for i := range f.Servers {
		f.Servers[i].Status.Partial, f.Servers[i].Status.Health, f.Servers[i].Members, f.Servers[i].MembersDenied = true, nil, nil, true
	}
	found := Judge(f)
	if !slices.ContainsFunc(found, func(x Finding) bool { return x.Check == "rights" && x.Do != "" && x.Level == OK }) {
		t.Errorf("%+v", found)
	}
	for _, check := range []string{"room", "alarms", "members", "quorum", "folder", "standbys"} {
		if slices.ContainsFunc(found, func(x Finding) bool { return x.Check == check }) {
			t.Errorf("%s is told, and was not looked at", check)
		}
	}
}

// What to do fits what is possible: a member can be replaced only while a majority agrees,
// and no standby takes over without one.
func TestJudgeAdvisesWhatIsPossible(t *testing.T) {
	advice := func(f Facts, check, where string) string {
		for _, x := range Judge(f) {
			if x.Check == check && x.Where == where {
				return x.Do
			}
		}
		return ""
	}
	f := three()
	drop(&f, 0)
	if do := advice(f, "members", "n1"); !strings.Contains(do, "pawl member replace") {
		t.Errorf("one is lost: %q", do)
	}
	if do := advice(f, "active", everywhere); !strings.Contains(do, "a standby takes over") {
		t.Errorf("the active one is lost: %q", do)
	}
	drop(&f, 1)
	if do := advice(f, "members", "n1"); do == "" || strings.Contains(do, "replace") {
		t.Errorf("two are lost: %q", do)
	}
	if do := advice(f, "active", everywhere); !strings.Contains(do, "no standby takes over") {
		t.Errorf("two are lost, the active one with them: %q", do)
	}
}
