package supervise

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is the folder of a control group (v2); empty is none.
type cgroup string

// newCgroup makes a control group below the one that this process is in. The
// group enables no controller, so it may lie below a group that has processes.
func newCgroup() (cgroup, error) {
	mounts, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	defer mounts.Close()
	own, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	defer own.Close()
	parent, err := cgroupFolder(mounts, own)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("pawl-run-%d-", os.Getpid()))
	if err != nil {
		return "", err
	}
	cg := cgroup(dir)
	if _, err := os.Stat(filepath.Join(dir, "cgroup.kill")); err != nil {
		cg.remove()
		return "", fmt.Errorf("kill a control group at once (Linux 5.14): %w", err)
	}
	return cg, nil
}

// cgroupFolder finds the folder of this process's group: the mount by its type,
// since hybrid hosts have it beside the controllers of version 1.
func cgroupFolder(mountinfo, selfCgroup io.Reader) (string, error) {
	path := ""
	for lines := bufio.NewScanner(selfCgroup); lines.Scan(); {
		if p, ok := strings.CutPrefix(lines.Text(), "0::"); ok {
			path = p
		}
	}
	if path == "" {
		return "", errors.New("this process is in no control group of version 2")
	}
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		// id parent major:minor root mountpoint options [optional…] - type source super
		front, back, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(front)
		if !ok || len(fields) < 5 || !strings.HasPrefix(back, "cgroup2 ") {
			continue
		}
		// A mount of a part of the tree shows that part alone.
		rel, err := filepath.Rel(unescape(fields[3]), path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		return filepath.Join(unescape(fields[4]), rel), nil
	}
	return "", fmt.Errorf("control group %s is not mounted", path)
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// open returns a descriptor for starting a process in the group.
func (cg cgroup) open() (*os.File, error) {
	return os.OpenFile(string(cg), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// kill kills what is in the group and below it, all at once.
func (cg cgroup) kill() {
	if cg != "" {
		_ = os.WriteFile(filepath.Join(string(cg), "cgroup.kill"), []byte("1"), 0)
	}
}

// remove removes an empty group and those that were made below it. The kernel
// may still be busy with its last process; a folder that stays does no harm.
func (cg cgroup) remove() {
	if cg == "" {
		return
	}
	for range removeTries {
		var dirs []string
		_ = filepath.WalkDir(string(cg), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			_ = unix.Rmdir(dirs[i])
		}
		if _, err := os.Lstat(string(cg)); errors.Is(err, fs.ErrNotExist) {
			return
		}
		time.Sleep(sweepPause) //tidy:clock a pause between two looks decides nothing
	}
}

const removeTries = 20
