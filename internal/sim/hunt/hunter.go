package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawlproject/pawl/internal/sim/planted"
)

const (
	finder = "./internal/sim/find"
	// testMax is how long a test may take.
	testMax = time.Minute
	// runMax bounds everything else that is started.
	runMax = 10 * time.Minute
)

// hunter looks for bugs.
type hunter struct {
	// root of the repository, and a folder for what is built.
	root, folder string
	// testMax is how long a test may take: one that takes longer has found nothing.
	testMax time.Duration

	mu sync.Mutex
	// baseline are the seeds and tests that were run without a bug, by name, and what
	// came of it. They run with what plain builds.
	baseline map[string]func() error
	plain    *builds
}

func newHunter(root, folder string) *hunter {
	h := &hunter{root: root, folder: folder, testMax: testMax, baseline: map[string]func() error{}}
	h.plain = &builds{hunter: h, folder: folder}
	return h
}

// hunt plants one bug and looks for it in all its ways.
func (h *hunter) hunt(ctx context.Context, i int, b *planted.Bug) verdict {
	var v verdict
	folder := filepath.Join(h.folder, strconv.Itoa(i))
	if v.err = os.Mkdir(folder, 0o700); v.err != nil {
		return v
	}
	defer os.RemoveAll(folder)
	overlay, err := b.Overlay(h.root, folder)
	if err != nil {
		v.err = err
		return v
	}
	built := builds{hunter: h, folder: folder, overlay: overlay}
	for _, w := range waysOf(b) {
		var how string
		switch w.By {
		case planted.BySim:
			how, err = h.inSim(ctx, &built, w)
		case planted.BySmall:
			how, err = h.inSmall(ctx, &built, w)
		case planted.ByTest:
			how, err = h.byTest(ctx, &built, w)
		}
		if err != nil {
			v.err = errors.Join(v.err, fmt.Errorf("%v: %w", w, err))
			continue
		}
		v.found = append(v.found, how)
	}
	return v
}

var foundLine = regexp.MustCompile(`(?m)^(\d+) (\S+) (.*)$`)

// find runs the finder; no invariant: it found nothing.
func (b *builds) find(ctx context.Context, args ...string) (seed uint64, invariant, what string, err error) {
	bin, err := b.binary(ctx, finder)
	if err != nil {
		return 0, "", "", err
	}
	// As many finders run as there are lanes.
	code, out, err := b.run(ctx, runMax, b.root, []string{"GOMAXPROCS=1"}, bin, args...)
	if err != nil || code == 1 {
		return 0, "", "", err
	}
	m := foundLine.FindStringSubmatch(out)
	if code != 0 || m == nil {
		return 0, "", "", fmt.Errorf("the finder ended with status %d: %s", code, firstLine(out))
	}
	seed, _ = strconv.ParseUint(m[1], 10, 64)
	return seed, m[2], m[3], nil
}

func (h *hunter) inSim(ctx context.Context, b *builds, w *planted.Way) (string, error) {
	known := *w
	if known.Seed != 0 {
		if err := h.baselineSeed(ctx, known.Seed); err != nil {
			return "", err
		}
	}
	seed, invariant, what, err := b.find(ctx, "-seed", fmt.Sprint(known.Seed), "-seeds", fmt.Sprint(*limit))
	if err != nil {
		return "", err
	}
	if invariant == "" {
		return "", fmt.Errorf("not found in %d worlds", *limit)
	}
	w.Seed, w.Invariant = seed, invariant
	moved := ""
	if *w != known && !*update {
		moved = fmt.Sprintf(" (its file says %q: make planted-table)", known)
	}
	return fmt.Sprintf("seed %d%s: %s: %s", seed, moved, invariant, what), nil
}

func (h *hunter) inSmall(ctx context.Context, b *builds, w *planted.Way) (string, error) {
	_, invariant, what, err := b.find(ctx, "-world", w.World)
	switch {
	case err != nil:
		return "", err
	case invariant == "":
		return "", errors.New("nothing is broken in the small world")
	case *update:
		w.Invariant = invariant
	case w.Invariant != invariant:
		return "", fmt.Errorf("another invariant is broken, %s: %s", invariant, what)
	}
	return fmt.Sprintf("small world %s: %s: %s", w.World, invariant, what), nil
}

func (h *hunter) byTest(ctx context.Context, b *builds, w *planted.Way) (string, error) {
	if err := h.baselineTest(ctx, w); err != nil {
		return "", err
	}
	failed, out, err := b.test(ctx, w)
	switch {
	case err != nil:
		return "", err
	case !failed:
		return "", errors.New("the test passes")
	case w.Invariant != "" && !regexp.MustCompile(`\b`+regexp.QuoteMeta(w.Invariant)+`\b`).MatchString(out):
		return "", fmt.Errorf("the test fails, and its output does not name %s", w.Invariant)
	}
	return w.Run + " fails", nil
}

// test runs a test, and reports whether it failed and what it printed.
func (b *builds) test(ctx context.Context, w *planted.Way) (failed bool, out string, err error) {
	bin, err := b.binary(ctx, w.Package, "test", "-c")
	if err != nil {
		return false, "", err
	}
	dir := filepath.Join(b.root, filepath.FromSlash(w.Package))
	code, out, err := b.run(ctx, b.testMax+time.Minute, dir, nil, bin,
		"-test.run", w.Run, "-test.timeout", b.testMax.String(), "-test.paniconexit0")
	switch {
	case err != nil:
	case strings.Contains(out, "no tests to run"):
		err = errors.New("no test has this name")
	case strings.Contains(out, "panic: test timed out after "):
		// A slow machine would do the same.
		err = fmt.Errorf("the test does not end within %v", b.testMax)
	}
	return code != 0, out, err
}

// builds are what is built with one bug, or with none, where overlay is "".
type builds struct {
	*hunter
	folder, overlay string

	mu   sync.Mutex
	done map[string]string
}

// binary builds a package once, and returns the path of what came of it.
func (b *builds) binary(ctx context.Context, pkg string, verb ...string) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if bin := b.done[pkg]; bin != "" {
		return bin, nil
	}
	if len(verb) == 0 {
		verb = []string{"build"}
	}
	bin := filepath.Join(b.folder, "bin"+strconv.Itoa(len(b.done)))
	args := append(verb, "-ldflags=-s", "-o", bin)
	if b.overlay != "" {
		args = append(args, "-overlay", b.overlay)
	}
	code, out, err := b.run(ctx, runMax, b.root, nil, "go", append(args, pkg)...)
	if err != nil {
		return "", err
	}
	if code != 0 {
		return "", fmt.Errorf("it does not compile: %s", strings.TrimSpace(out))
	}
	if _, err := os.Stat(bin); err != nil {
		return "", fmt.Errorf("%s has no tests", pkg)
	}
	if b.done == nil {
		b.done = map[string]string{}
	}
	b.done[pkg] = bin
	return bin, nil
}

// run runs a command to its end, and returns its status and what it printed. It
// fails when the command cannot be started or takes longer than most.
func (h *hunter) run(ctx context.Context, most time.Duration, dir string, env []string, name string, args ...string) (int, string, error) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &out
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		return 0, "", fmt.Errorf("%s: %w", filepath.Base(name), ctx.Err())
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode(), out.String(), nil
	}
	return 0, out.String(), err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

// once runs a check without a bug, the first time that it is asked for.
func (h *hunter) once(name string, check func() error) error {
	h.mu.Lock()
	f := h.baseline[name]
	if f == nil {
		f = sync.OnceValue(check)
		h.baseline[name] = f
	}
	h.mu.Unlock()
	return f()
}

// baselineSeed fails when the world of a seed fails without a bug.
func (h *hunter) baselineSeed(ctx context.Context, seed uint64) error {
	return h.once(fmt.Sprint("seed ", seed), func() error {
		_, invariant, what, err := h.plain.find(ctx, "-seed", fmt.Sprint(seed))
		if err == nil && invariant != "" {
			err = fmt.Errorf("the world fails without the bug, too: %s: %s", invariant, what)
		}
		return err
	})
}

// baselineTest fails when a test fails without a bug.
func (h *hunter) baselineTest(ctx context.Context, w *planted.Way) error {
	return h.once("test "+w.Package+" "+w.Run, func() error {
		failed, out, err := h.plain.test(ctx, w)
		if err == nil && failed {
			err = fmt.Errorf("the test fails without the bug, too: %s", strings.TrimSpace(out))
		}
		return err
	})
}
