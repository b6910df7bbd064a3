package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// roleEnv says what this process is; without it, the one that was typed.
const roleEnv = "PAWL_TORTURE_ROLE"

// settings are what a run is told.
type settings struct {
	store      string
	duration   time.Duration
	seed       uint64
	pawl, etcd string
	folder     string // for data and logs; the process outside makes and removes it
}

const (
	durationMin = calmFirst + calmLast + 5*time.Second
	durationMax = 4 * time.Hour
	// endMost is how long a run may take beside its duration.
	endMost = 3 * time.Minute
)

func parse(args []string) (settings, error) {
	var s settings
	f := flag.NewFlagSet("torture", flag.ContinueOnError)
	f.StringVar(&s.store, "store", storeQuorum, "quorum or etcd")
	f.DurationVar(&s.duration, "duration", 5*time.Minute, "how long")
	f.Uint64Var(&s.seed, "seed", 0, "of the schedule of faults; 0: any")
	f.StringVar(&s.pawl, "pawl", ".bin/pawl", "the program")
	f.StringVar(&s.etcd, "etcd", ".bin/etcd-3.7", "etcd, for the store etcd")
	f.StringVar(&s.folder, "folder", "", "used by torture itself")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	if s.duration < durationMin || s.duration > durationMax {
		return s, fmt.Errorf("the duration is %v: %v to %v was expected", s.duration, durationMin, durationMax)
	}
	if _, err := worldOf(s.store); err != nil {
		return s, err
	}
	for s.seed == 0 {
		s.seed = rand.Uint64N(1e9)
	}
	var err error
	if s.pawl, err = filepath.Abs(s.pawl); err == nil {
		s.etcd, err = filepath.Abs(s.etcd)
	}
	return s, err
}

func (s settings) args() []string {
	return []string{
		"-store", s.store, "-duration", s.duration.String(), "-seed", fmt.Sprint(s.seed),
		"-pawl", s.pawl, "-etcd", s.etcd, "-folder", s.folder,
	}
}

func main() {
	switch os.Getenv(roleEnv) {
	case "worker":
		os.Exit(workerMain(os.Args[1:]))
	case "inside":
		os.Exit(insideMain(os.Args[1:]))
	}
	s, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		os.Exit(64)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := outside(ctx, s, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "torture:", err)
		stop()
		os.Exit(1)
	}
}

// outside runs torture in namespaces of its own, in a folder that is kept when something
// is wrong.
func outside(ctx context.Context, s settings, out io.Writer) (err error) {
	for _, tool := range []string{"ip", "nft"} {
		if _, err := tools(tool); err != nil {
			return fmt.Errorf("%w (install iproute2 and nftables)", err)
		}
	}
	if s.folder, err = os.MkdirTemp("", "pawl-torture-"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w; kept: %s", err, s.folder)
			return
		}
		err = os.RemoveAll(s.folder)
	}()
	// The parent whose death kills the child is a thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	limited, cancel := context.WithTimeout(ctx, s.duration+endMost)
	defer cancel()
	cmd := exec.CommandContext(limited, "/proc/self/exe", s.args()...)
	cmd.Env = append(os.Environ(), roleEnv+"=inside")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		// Root inside, and nobody but the caller outside.
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
		Setpgid:     true,
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("no namespaces of its own can be made here (unprivileged user namespaces may be switched off: "+
			"kernel.unprivileged_userns_clone, user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns): %w", err)
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted")
	case limited.Err() != nil:
		return fmt.Errorf("it did not end within %v", s.duration+endMost)
	case err != nil:
		return fmt.Errorf("the run failed: %w", err)
	}
	return nil
}

// tools finds a program that may lie where only root looks.
func tools(name string) (string, error) {
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if err == nil {
			break
		}
		path, err = exec.LookPath(filepath.Join(dir, name))
	}
	return path, err
}
