//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlproject/pawl/internal/testwait"

	"github.com/pawlproject/pawl/internal/testpostgres"
)

// pair is a primary with a streaming standby.
type pair struct {
	primary, standby *testpostgres.Server
	// first is the database on the primary, with the guard and the list.
	first *database
}

const standbyName = "second"

// streaming makes a pair of which the standby is up to date. With synchronous, a
// commit on the primary waits for it.
func streaming(t *testing.T, synchronous bool) *pair {
	t.Helper()
	wholly(t)
	p := &pair{}
	var err error
	p.primary, err = testpostgres.Start(testpostgres.Options{Bin: server.Bin, Settings: []string{"wal_sender_timeout = 0"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p.primary) })
	p.standby, err = follow(p.primary, standbyName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p.standby) })
	p.first = open(t, p.primary.DSN("postgres"))
	p.first.mustExec(t, `create table list (id bigserial primary key, resource text not null, text text not null)`)
	if err := p.first.guard.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.join(t)
	if synchronous {
		p.first.mustExec(t, `alter system set synchronous_standby_names = '`+standbyName+`'`)
		p.first.mustExec(t, `select pg_reload_conf()`)
		p.commitsWait(t)
	}
	return p
}

func stop(t *testing.T, s *testpostgres.Server) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// follow makes a streaming standby of s and starts it.
func follow(s *testpostgres.Server, name string) (*testpostgres.Server, error) {
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		return nil, err
	}
	standby, err := followIn(s, dir, name)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return standby, nil
}

func followIn(s *testpostgres.Server, dir, name string) (*testpostgres.Server, error) {
	as, err := testpostgres.Unprivileged(dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), testpostgres.StartMax)
	defer cancel()
	data := filepath.Join(dir, "data")
	backup := exec.CommandContext(ctx, filepath.Join(s.Bin, "pg_basebackup"), "-D", data, "-R", "-X", "stream", "-c", "fast",
		"--no-sync", "-d", fmt.Sprintf("host=%s port=5432 user=postgres application_name=%s", s.Folder, name))
	as(backup, dir)
	if out, err := backup.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w\n%s", err, out)
	}
	err = testpostgres.AppendFile(filepath.Join(data, "postgresql.conf"), "unix_socket_directories = '"+dir+
		"'\nwal_receiver_timeout = 0\nwal_retrieve_retry_interval = '100ms'\n")
	if err != nil {
		return nil, err
	}
	standby := &testpostgres.Server{Folder: dir, Bin: s.Bin, As: as}
	return standby, standby.Run()
}

// Of a standby neither.
func TestFailedServerStartLeavesNothing(t *testing.T) {
	wholly(t)
	folders := t.TempDir()
	t.Setenv("TMPDIR", folders)
	nowhere := &testpostgres.Server{Folder: filepath.Join(folders, "nowhere"), Bin: server.Bin}
	if _, err := follow(nowhere, standbyName); err == nil {
		t.Error("there is a standby of no server")
	}
	if _, err := testpostgres.Start(testpostgres.Options{Bin: folders}); err == nil {
		t.Error("a server has started without its program")
	}
	left, err := os.ReadDir(folders)
	if err != nil || len(left) > 0 {
		t.Errorf("what is left: %v, %v", left, err)
	}
}

// execOnStandby runs statements on the standby.
func (p *pair) execOnStandby(t *testing.T, statements ...string) {
	t.Helper()
	p.first.as(t, p.standby.DSN("postgres")).must(statements...)
}

// cut keeps what is committed from now on from the standby.
func (p *pair) cut(t *testing.T) {
	t.Helper()
	p.execOnStandby(t, `alter system set primary_conninfo = ''`, `select pg_reload_conf()`)
	testwait.Until(t, bound, "a primary without a standby", func() bool {
		return p.first.count(t, `select count(*) from pg_stat_replication`) == 0
	})
}

// join has the standby receive again, and returns when it has got everything.
func (p *pair) join(t *testing.T) {
	t.Helper()
	p.execOnStandby(t, `alter system set primary_conninfo = 'host=`+p.primary.Folder+` port=5432 user=postgres application_name=`+standbyName+`'`,
		`select pg_reload_conf()`)
	testwait.Until(t, bound, "a standby that has everything", func() bool {
		return p.first.count(t, `select count(*) from pg_stat_replication
			where state = 'streaming' and replay_lsn >= pg_current_wal_lsn()`) == 1
	})
}

// awaiting is how many commits wait for the standby.
func (p *pair) awaiting(t *testing.T) int {
	t.Helper()
	return p.first.count(t, `select count(*) from pg_stat_activity where wait_event = 'SyncRep'`)
}

// commitsWait returns when the primary has noticed that commits are to wait.
func (p *pair) commitsWait(t *testing.T) {
	t.Helper()
	p.cut(t)
	for {
		end := make(chan error, 1)
		go func() {
			_, err := p.first.Exec(t.Context(), `insert into list (resource, text) values ('probe', 'p')`)
			end <- err
		}()
		waits, over := false, false
		testwait.Until(t, bound, "a commit that waits or is done", func() bool {
			select {
			case err := <-end:
				if err != nil {
					t.Fatal(err)
				}
				over = true
			default:
				waits = p.awaiting(t) == 1
			}
			return waits || over
		})
		if over {
			continue
		}
		p.join(t)
		if err := <-end; err != nil {
			t.Fatal(err)
		}
		return
	}
}

// held starts what must wait for the standby, and returns how it ends.
func (p *pair) held(t *testing.T, do func() error) <-chan error {
	t.Helper()
	end := make(chan error, 1)
	go func() { end <- do() }()
	testwait.Until(t, bound, "a commit that waits for the standby", func() bool {
		select {
		case err := <-end:
			t.Fatalf("it was answered (%v) before the standby had it", err)
		default:
		}
		return p.awaiting(t) == 1
	})
	return end
}

// crash ends the primary at once.
func (p *pair) crash() { p.primary.Process.Stop() }

// promote makes the standby a primary, and returns the database there.
func (p *pair) promote(t *testing.T) *database {
	t.Helper()
	p.execOnStandby(t, `do $$ begin if not pg_promote(true, 60) then raise 'not promoted'; end if; end $$`)
	d := open(t, strings.Replace(p.first.dsn, p.primary.Folder, p.standby.Folder, 1))
	testwait.Until(t, bound, "a primary that was a standby", func() bool {
		return d.count(t, `select pg_is_in_recovery()::int`) == 0
	})
	return d
}
