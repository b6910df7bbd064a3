package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace; it lives as long as the file is open or a process is
// in it.
type namespace struct{ file *os.File }

// newNamespace makes one.
func newNamespace() (namespace, error) {
	var n namespace
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		var err error
		n.file, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return n, err
}

// do runs something in the namespace: what it opens or starts belongs to it.
func (n namespace) do(what func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return what()
	})
}

// onThread runs something on a thread of its own, which ends with it.
func onThread(what func() error) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked
		ended <- what()
	}()
	return <-ended
}

// tool runs ip or nft in this process's namespace or, on a thread in another, there.
func tool(input string, files []*os.File, name string, args ...string) error {
	path, err := tools(name)
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.ExtraFiles = strings.NewReader(input), files
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// ip runs words of ip, one command after the other.
func ip(lines ...string) error {
	for _, line := range lines {
		if err := tool("", nil, "ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// lan makes a namespace for every node, and connects all of them and this process by a
// bridge.
func lan(w world) (map[string]namespace, error) {
	err := ip("link set lo up", "link add bridge type bridge", "address add "+network+"1/24 dev bridge", "link set bridge up")
	if err != nil {
		return nil, err
	}
	all := map[string]namespace{}
	for _, node := range w.nodes() {
		n, err := newNamespace()
		if err != nil {
			return nil, err
		}
		all[node] = n
		// /proc/self/fd/3 is the first of the extra files.
		err = errors.Join(
			tool("", []*os.File{n.file}, "ip", "link", "add", "to-"+node, "type", "veth", "peer", "name", "eth0", "netns", "/proc/self/fd/3"),
			ip("link set to-"+node+" master bridge up"),
			n.do(func() error {
				return errors.Join(
					ip("link set lo up", "address add "+w.address(node)+"/24 dev eth0", "link set eth0 up"),
					tool(tables, nil, "nft", "-f", "-"),
				)
			}),
		)
		if err != nil {
			return nil, fmt.Errorf("connect %s: %w", node, err)
		}
	}
	return all, nil
}
