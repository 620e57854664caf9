//go:build unix

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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// workshop builds everything, once, and starts everything.
type workshop struct {
	dir   string
	temp  string          // where programs keep their files
	ctx   context.Context //nolint:containedctx // of the whole command, which has but one
	built map[string]error
}

func openWorkshop(ctx context.Context) (*workshop, error) {
	dir, err := os.MkdirTemp("", "mopslock-bench-")
	if err != nil {
		return nil, err
	}
	w := &workshop{dir: dir, temp: filepath.Join(dir, "temp"), ctx: ctx, built: map[string]error{}}
	return w, errors.Join(os.Mkdir(w.temp, 0o700), os.WriteFile(w.path("renewals.vec"), record().vector(), 0o600),
		os.Setenv("MOPSLOCK_BENCH_CACHE", w.path("cache")))
}

func (w *workshop) path(name string) string { return filepath.Join(w.dir, name) }

func (w *workshop) close() { os.RemoveAll(w.dir) }

// A program that hangs is no figure; the slowest takes two minutes, where all others are slow as well.
const (
	programLimit = 10 * time.Minute
	programGrace = 15 * time.Second
)

// command is a program that is told to end after the limit, or when we are.
func (w *workshop) command(program string, args ...string) (cmd *exec.Cmd, cancel context.CancelFunc) {
	ctx, cancel := context.WithTimeout(w.ctx, programLimit)
	cmd = ending(ctx, program, args...)
	if w.temp != "" {
		cmd.Env = append(cmd.Environ(), "TMPDIR="+w.temp)
	}
	return cmd, cancel
}

// ending is a program that is told to end with the context, and with it all that it
// has started: a test that is told alone leaves its servers behind.
func ending(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = programGrace
	return cmd
}

// build runs a command the first time that it is asked for, at the root.
func (w *workshop) build(name string, args ...string) error {
	err, done := w.built[name]
	if !done {
		_, err = w.output(ending(w.ctx, args[0], args[1:]...)) // without a limit: a machine may be slow
		w.built[name] = err
	}
	return err
}

func (w *workshop) output(cmd *exec.Cmd) ([]byte, error) {
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return out, err
}

// said runs a command, and returns what it prints on stdout: its parts may say more on stderr.
func (w *workshop) said(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.Bytes())
	}
	return string(out), err
}

// number runs a command that prints one number.
func (w *workshop) number(cmd *exec.Cmd) (figure, error) {
	out, err := w.said(cmd)
	if err != nil {
		return figure{}, err
	}
	value, err := strconv.ParseFloat(anyNumber.FindString(out), 64)
	if err != nil {
		err = fmt.Errorf("%s: said %s", strings.Join(cmd.Args, " "), out)
	}
	return figure{Value: value, Unit: inTime}, err
}

// numbers runs a command that prints many, one a line: their median, and all of them
// as samples of a curve.
func (w *workshop) numbers(cmd *exec.Cmd, curve string) (figure, error) {
	out, err := w.said(cmd)
	f := figure{Unit: inTime, Curve: curve}
	for line := range strings.FieldsSeq(out) {
		value, errValue := strconv.ParseFloat(line, 64)
		f.Samples, err = append(f.Samples, value), errors.Join(err, errValue)
	}
	if err != nil || len(f.Samples) == 0 {
		return f, errors.Join(err, fmt.Errorf("%s: said %q", strings.Join(cmd.Args, " "), out))
	}
	slices.Sort(f.Samples)
	f.Value = f.Samples[len(f.Samples)/2]
	return f, nil
}

var (
	anyNumber   = regexp.MustCompile(`[0-9]+(\.[0-9]+)?`)
	perOp       = regexp.MustCompile(`\s([0-9.]+) ns/op`)
	allocsPerOp = regexp.MustCompile(`\s([0-9]+) allocs/op`)
)

// goBench is a Go benchmark.
type goBench struct{ pkg, name string }

func (g goBench) measure(w *workshop) (figure, error) {
	out, err := g.run(w)
	if err != nil {
		return figure{}, err
	}
	f := figure{Unit: inTime}
	if f.Value, err = g.find(perOp, out); err != nil {
		return f, err
	}
	if allocsPerOp.Match(out) {
		f.Allocs, err = g.find(allocsPerOp, out)
	}
	return f, err
}

// binary is the package's tests, built.
func (g goBench) binary(w *workshop) (string, error) {
	path := w.path(strings.ReplaceAll(g.pkg, "/", "-") + ".test")
	return path, w.build(path, "go", "test", "-c", "-o", path, module+g.pkg)
}

func (g goBench) run(w *workshop) ([]byte, error) {
	binary, err := g.binary(w)
	if err != nil {
		return nil, err
	}
	bench, cancel := w.command(binary, "-test.run", "^$", "-test.bench", "^Benchmark"+g.name+"$", "-test.benchtime", length)
	defer cancel()
	bench.Dir = w.dir
	return w.output(bench)
}

func (g goBench) find(what *regexp.Regexp, out []byte) (float64, error) {
	match := what.FindSubmatch(out)
	if match == nil {
		return 0, fmt.Errorf("%s: there is no such benchmark, or it said nothing: %s", g.name, out)
	}
	return strconv.ParseFloat(string(match[1]), 64)
}

// onTmpfs is a source whose files are on a file system in memory. Otherwise the disk is
// measured: it writes out a file that is renamed over another one, which takes anything
// from 0.2 to 5 ms.
type onTmpfs struct{ source }

// memoryDir is such a file system on Linux. There is no figure where there is none.
const memoryDir = "/dev/shm"

func (t onTmpfs) measure(w *workshop) (f figure, err error) {
	before := w.temp
	defer func() { w.temp = before }()
	if w.temp, err = os.MkdirTemp(memoryDir, "mopslock-bench-"); err != nil {
		return figure{}, &missingError{"a file system in memory at " + memoryDir}
	}
	defer os.RemoveAll(w.temp)
	return t.source.measure(w)
}

// quoted is a figure that no run here can measure, or one that is a definition.
type quoted figure

func (q quoted) measure(*workshop) (figure, error) { return figure(q), nil }

// quote is a figure from elsewhere, and its source.
func quote(value float64, u unit, from string) quoted {
	return quoted{Value: value, Unit: u, Quoted: from}
}

// set is a figure that need not be measured.
func set(value float64, u unit) quoted { return quoted{Value: value, Unit: u} }

// library builds libmopslock-core.
func (w *workshop) library() error {
	return errors.Join(
		w.build("library", "make", "-s", "-C", "bindings/c", "shared", "LIB="+w.dir),
		w.build("guest", "cp", "wasm/mopslock.wasm", "wasm/mopslock.wasm.sha256", w.dir),
	)
}

// replayC is the same trace from C.
type replayC struct{}

func (replayC) measure(w *workshop) (figure, error) {
	program := w.path("replay")
	err := errors.Join(w.library(), w.build(program, "gcc", "-std=c11", "-O2", "-Ibindings/c", "-o", program,
		"bindings/c/replay/replay.c", "-L"+w.dir, "-lmopslock-core", "-Wl,-rpath,"+w.dir))
	if err != nil {
		return figure{}, err
	}
	cmd, cancel := w.command(program, "--bench", "50", w.path("renewals.vec"))
	defer cancel()
	return w.number(cmd)
}

// guestBudget is how many bytes the core may add to a bare reactor: the module has 4 MiB at most.
const guestBudget = 2200 << 10

// guestSize and bareSize are bytes of WebAssembly.
type guestSize struct{}

func (guestSize) measure(*workshop) (figure, error) { return sizeOf("wasm/mopslock.wasm") }

type bareSize struct{}

func (bareSize) measure(w *workshop) (figure, error) {
	path := w.path("bare.wasm")
	if err := w.build(path, "go", "run", "./wasm/internal/gen", "-bare", "-o", path); err != nil {
		return figure{}, err
	}
	return sizeOf(path)
}

func sizeOf(path string) (figure, error) {
	info, err := os.Stat(path)
	if err != nil {
		return figure{}, err
	}
	return figure{Value: float64(info.Size()), Unit: inBytes}, nil
}
