package endtoend

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pawlproject/pawl/guard"
	"github.com/pawlproject/pawl/guard/sqlguard"
	"github.com/pawlproject/pawl/internal/clock"
	"github.com/pawlproject/pawl/internal/testwait"
)

// rideTTL is the TTL of these tests.
const rideTTL = 3 * time.Second

// guardedFile is a SQLite file with a guard; its DSN.
func guardedFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := sqlguard.New(db, sqlguard.SQLite()).Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return "sqlite:" + path
}

// seenAt is what a guard has seen for a name.
func seenAt(t *testing.T, dsn, name string) (seen struct {
	Token guard.Token `json:"fencing_token"`
	Cell  string
},
) {
	t.Helper()
	r := guardCommand(t, dsn, "seen", name, "--json")
	if err := json.Unmarshal([]byte(r.stdout), &seen); err != nil {
		t.Fatal(err, r)
	}
	return seen
}

// job is a run of the name "a" whose command goes on until it is told to end, with 5.
type job struct {
	*begun
	dir     string
	command int    // pid
	token   string // of its lease
}

// startJob waits until the command runs.
func startJob(t *testing.T, servers string, flags ...string) *job {
	t.Helper()
	dir := t.TempDir()
	// What run says goes to a file, which is read while it runs.
	const start = `dir=$1; shift; exec "$@" 2>"$dir/said"`
	const work = `echo $$ $PAWL_FENCE >"$0/.up" && mv "$0/.up" "$0/up"; while ! test -e "$0/stop"; do sleep 0.05; done; exit 5`
	cmd := pawlCommand(t, 5*bound, append(append([]string{"run", "a", "--ttl", rideTTL.String()}, flags...), "--", "sh", "-c", work, dir)...)
	cmd.Env = append(cmd.Env, "PAWL_SERVERS="+servers)
	cmd.Args = append([]string{"sh", "-c", start, "sh", dir, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	j := &job{begun: begin(t, cmd), dir: dir}
	testwait.Until(t, bound, "the command is up", func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "up"))
		if err != nil {
			return false
		}
		pid, token, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
		j.command, err = strconv.Atoi(pid)
		j.token = token
		return err == nil
	})
	return j
}

func (j *job) said() string {
	j.t.Helper()
	text, err := os.ReadFile(filepath.Join(j.dir, "said"))
	if err != nil {
		j.t.Fatal(err)
	}
	return string(text)
}

func (j *job) says(part string) {
	j.t.Helper()
	testwait.Until(j.t, bound, "it says "+part, func() bool { return strings.Contains(j.said(), part) })
}

// runs says that the command is alive.
func (j *job) runs() bool { return unix.Kill(j.command, 0) == nil }

// gone waits for the end of the command.
func (j *job) gone() {
	j.t.Helper()
	testwait.Until(j.t, bound, "the command is gone", func() bool { return !j.runs() })
}

// finish tells the command to end.
func (j *job) finish() result {
	j.t.Helper()
	if err := os.WriteFile(filepath.Join(j.dir, "stop"), nil, 0o600); err != nil {
		j.t.Fatal(err)
	}
	return j.end()
}

const rides = "no server answers: the lease rides on its guard, until "

// The server is killed, and stays away for several TTLs: the command of a rider goes on, and
// that of others is ended by its deadline. When the server is back, the rider goes on under
// its token, and its lease is released at its end.
func TestCommandRidesThroughOutage(t *testing.T) {
	long(t)
	dsn := guardedFile(t)
	s := newServer(t)
	s.up()
	rider := startJob(t, s.link, "--claim", dsn, "--ride-through=1h")
	other := begin(t, s.command(5*bound, "run", "b", "--ttl", rideTTL.String(), "--claim", dsn, "--", "sleep", "1000"))
	s.waitsFor("b")
	s.signal(syscall.SIGKILL)
	s.end()
	killed := clock.Boottime()
	if r := other.end(); r.code != 70 {
		t.Errorf("one that does not ride: %v", r)
	}
	rider.says(rides)
	until(t, killed+3*rideTTL)
	if !rider.runs() {
		t.Fatalf("the rider's command was ended:\n%s", rider.said())
	}
	s.up()
	rider.says("a server answers again; the lease goes on under the same token, after riding ")
	if h := s.lookUp("a").Holders; len(h) != 1 || h[0].FencingToken != rider.token {
		t.Errorf("it rode under token %s, and the holder is %+v", rider.token, h)
	}
	if seen := seenAt(t, dsn, "a"); seen.Token.String() != rider.token {
		t.Errorf("the mark is %+v, the rider's token %s", seen, rider.token)
	}
	if r := rider.finish(); r.code != 5 {
		t.Errorf("it ended with %d:\n%s", r.code, rider.said())
	}
	s.want(0, "run", "a", "-n", "--", "true")
}

// waitsFor waits until a name has a holder.
func (s *server) waitsFor(name string) {
	s.t.Helper()
	testwait.Until(s.t, bound, "the name has a holder", func() bool { return len(s.lookUp(name).Holders) > 0 })
}

// cutOffRider starts a rider, cuts it off from the server, and waits until its lease has
// expired there.
func cutOffRider(t *testing.T, s *server, dsn string) (*job, *relay) {
	t.Helper()
	way := newRelay(t, s.link)
	rider := startJob(t, way.address, "--claim", dsn, "--ride-through=1h")
	way.set(silent)
	rider.says(rides)
	testwait.Until(t, bound, "the rider's lease expires", func() bool { return len(s.lookUp("a").Holders) == 0 })
	return rider, way
}

// A rider is cut off while others are not: its lease expires, one that does not claim waits
// and is told why, one that claims is granted the name, and the rider reads its mark and
// ends.
func TestCutOffRiderEndsWhenOvertaken(t *testing.T) {
	long(t)
	dsn := guardedFile(t)
	s := newServer(t)
	s.up()
	rider, _ := cutOffRider(t, s, dsn)

	contains(t, s.want(75, "run", "a", "-n", "--", "true").stderr, "to acquires that do not claim")
	contains(t, s.want(75, "run", "a", "-w", "2s", "--", "true").stderr, "waiting: a is closed for ", "to acquires that do not claim", "not granted within 2s")
	if !rider.runs() {
		t.Fatalf("the rider's command was ended although nobody had claimed:\n%s", rider.said())
	}
	r := s.want(0, "run", "a", "-n", "--claim", dsn, "--", "sh", "-c", "echo $PAWL_FENCE")
	claimed := clock.Boottime()
	rider.gone()
	t.Logf("the rider's command was gone %v after its successor's end", clock.Boottime()-claimed)
	if r := rider.end(); r.code != 70 {
		t.Errorf("the rider ended with %d:\n%s", r.code, rider.said())
	}
	contains(t, rider.said(), "the ride is over, after ", "overtaken", "stale fencing token "+rider.token, "seen "+strings.TrimSpace(r.stdout), "the command is asked to end")
}

// A server that is back and no longer has the session ends the ride.
func TestRideEndsWhenServerSaysGone(t *testing.T) {
	long(t)
	dsn := guardedFile(t)
	s := newServer(t)
	s.up()
	rider, way := cutOffRider(t, s, dsn)
	way.set(passing)
	if r := rider.end(); r.code != 70 {
		t.Errorf("the rider ended with %d:\n%s", r.code, rider.said())
	}
	contains(t, rider.said(), "the ride is over, after ", "the server no longer has it: the command is asked to end")
}

// Only the run hears of what ends a ride. When it is stopped, its command ends within a TTL.
func TestStoppedRunOfRiderHasCommandEnded(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	rider := startJob(t, s.link, "--claims", "--ride-through=1h")
	s.signal(syscall.SIGKILL)
	s.end()
	rider.says(rides)
	if err := rider.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	rider.gone()
	if err := rider.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if r := rider.end(); r.code != 70 {
		t.Errorf("it ended with %d:\n%s", r.code, rider.said())
	}
}

// What a command had sent when it was ended may be on its way yet, so the end of its run
// releases no lease that rode, although a server is back by then.
func TestEndedCommandOfRiderIsNotReleased(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	rider := startJob(t, s.link, "--claims", "--ride-through=1h")
	s.signal(syscall.SIGKILL)
	s.end()
	rider.says(rides)
	if err := rider.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	rider.gone()
	s.up()
	if err := rider.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if r := rider.end(); r.code != 70 {
		t.Errorf("it ended with %d:\n%s", r.code, rider.said())
	}
	s.want(75, "run", "a", "-n", "--", "true")
}

// The command ends before its ride-through is over.
func TestRideThroughIsOver(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	const most = 8 * time.Second
	rider := startJob(t, s.link, "--claims", "--ride-through", most.String())
	s.signal(syscall.SIGKILL)
	s.end()
	killed := clock.Boottime()
	rider.says(rides)
	rider.gone()
	if over := clock.Boottime() - killed; over < rideTTL {
		t.Errorf("the command was ended %v after the server", over)
	}
	if r := rider.end(); r.code != 70 {
		t.Errorf("it ended with %d:\n%s", r.code, rider.said())
	}
	contains(t, rider.said(), "its ride-through of 8s is over, and no server has answered")
}

// A command that ends while its lease rides has ended well. The run says that no server
// could be told, and for how long the name is closed.
func TestCommandEndsWhileItRides(t *testing.T) {
	long(t)
	s := newServer(t)
	s.up()
	rider := startJob(t, s.link, "--claims", "--ride-through=1h")
	s.signal(syscall.SIGKILL)
	s.end()
	rider.says(rides)
	if r := rider.finish(); r.code != 5 {
		t.Errorf("it ended with %d:\n%s", r.code, rider.said())
	}
	contains(t, rider.said(), "no server could be told that the lease is released", "a is closed for 1h0m0s to acquires that do not claim")
}

// The same on PostgreSQL, with a password in a file: a claim with a fresh token stops a rider
// that no server reaches.
func TestRiderOnPostgresIsOvertaken(t *testing.T) {
	_, dsn := postgres(t, "ridden")
	must(t, connect(t, dsn), finish(t, pawlCommand(t, bound, "guard", "ddl", "--dialect", "postgres")).stdout)
	file := filepath.Join(t.TempDir(), "dsn")
	if err := os.WriteFile(file, []byte(dsn+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newServer(t)
	s.up()
	rider := startJob(t, s.link, "--claim-file", file, "--ride-through=1h")
	seen := seenAt(t, dsn, "a")
	if seen.Token.String() != rider.token {
		t.Errorf("the mark is %+v, the rider's token %s", seen, rider.token)
	}
	s.signal(syscall.SIGKILL)
	s.end()
	rider.says(rides)
	next := (seen.Token + 1).String()
	expect(t, guardCommand(t, dsn, "claim", "a", "--token", next, "--cell", seen.Cell), 0)
	if r := rider.end(); r.code != 70 {
		t.Errorf("it ended with %d:\n%s", r.code, rider.said())
	}
	contains(t, rider.said(), "overtaken", "stale fencing token "+rider.token, "seen "+next)
}
