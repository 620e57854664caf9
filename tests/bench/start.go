//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"time"
)

// floorProgram runs a command, and does more with its build tags.
const floorProgram = module + "tests/bench/testdata/floor"

// starts is how many processes of a kind there are in one round; the figure is of
// the median. The first ones, which find caches cold, do not count.
const (
	starts  = 40
	unheard = 2
)

// startUp is a process from its start to its end.
type startUp struct {
	program string
	args    []string
	cpu     bool // the processor's time for it and its children instead
}

// Programs that startUp can start; any other is the system's.
const (
	builtHost   = "mopslock-host" // as make build makes it
	slimHost    = "slim"          // without the clouds' drivers
	forking     = "forking"       // Go, and nothing but the command that it runs
	linkedFork  = "linked"        // that, and the drivers are in it, unused
	verbsAround = "verbs"         // that, without drivers, between a run's requests to a directory
)

var (
	startTrue   = startUp{program: "true"}
	startFork   = startUp{program: forking, args: []string{"true"}}
	startLinked = startUp{program: linkedFork, args: []string{"true"}}
	startVerbs  = startUp{program: verbsAround, args: []string{"true"}}
	startRun    = startUp{program: builtHost, args: []string{"run", "native", "--", "true"}}
	startSlim   = startUp{program: slimHost, args: []string{"run", "slim", "--", "true"}}
	startWASM   = startUp{program: builtHost, args: []string{"run", "--engine", "wasm", "wasm", "--", "true"}}
)

// inCPU is the same, measured by the processor's time, which other work disturbs less.
func (s startUp) inCPU() startUp {
	s.cpu = true
	return s
}

func (s startUp) measure(w *workshop) (figure, error) {
	path, err := w.program(s.program)
	if err := errors.Join(err, os.MkdirAll(w.path("start-store"), 0o700)); err != nil {
		return figure{}, err
	}
	took := make([]float64, 0, unheard+starts)
	for range unheard + starts {
		one, err := s.once(w, path)
		if err != nil {
			return figure{}, err
		}
		took = append(took, float64(one))
	}
	took = took[unheard:]
	slices.Sort(took)
	return figure{Value: took[len(took)/2], Unit: inTime}, nil
}

// once starts it, and waits for its end.
func (s startUp) once(w *workshop, path string) (time.Duration, error) {
	cmd, cancel := w.command(path, s.args...)
	defer cancel()
	cmd.Env = append(cmd.Environ(), "XDG_CACHE_HOME="+w.path("start-cache"), "MOPSLOCK_STORE=file://"+w.path("start-store"))
	begun := time.Now()
	_, err := w.output(cmd)
	if s.cpu && err == nil {
		return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
	}
	return time.Since(begun), err
}

// programSize is how many bytes a program has, as it is built here.
type programSize struct{ program string }

func (p programSize) measure(w *workshop) (figure, error) {
	path, err := w.program(p.program)
	if err != nil {
		return figure{}, err
	}
	return sizeOf(path)
}

// program builds a program the first time that it is asked for.
func (w *workshop) program(name string) (string, error) {
	path := w.path(name)
	switch name {
	case builtHost:
		return path, w.build(path, "make", "-s", "build", "BIN="+w.dir)
	case slimHost:
		return path, w.buildGo(path, module+"cmd/mopslock-host", "mopslock_nocloud")
	case forking:
		return path, w.buildGo(path, floorProgram, "")
	case linkedFork:
		return path, w.buildGo(path, floorProgram, "floor_linked,disable_grpc_modules")
	case verbsAround:
		return path, w.buildGo(path, floorProgram, "floor_verbs")
	}
	return exec.LookPath(name)
}

// buildGo builds a program without the tables of debuggers.
func (w *workshop) buildGo(path, source, tags string) error {
	return w.build(path, "go", "build", "-ldflags=-s -w", "-tags="+tags, "-o", path, source)
}
