package main

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/capture"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/child"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/console"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/engine"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/metrics"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/recording"
	"github.com/mopslock/mopslock/cmd/mopslock-host/internal/supervise"
	"github.com/mopslock/mopslock/host"
)

// app is one run of the program.
type app struct {
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	console *console.Console

	storeURL  string
	json      bool
	engine    engine.Engine
	steppers  int // Hosts and functions that may still step a machine of the engine
	trace     *recording.Recording
	tracePath string
	metrics   *metrics.File // nil: without --metrics-file

	status  *statusFile
	closing time.Duration // how long closing the store may take

	// The world outside. Tests give their own, and need no process.
	env      []string
	clock    host.Clock // nil: the machine's
	signals  signals
	openHost func(context.Context, string, *host.Options) (*host.Host, error)
	newPipe  func(take func([]byte)) (pipe, error)
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	return &app{
		stdin: stdin, stdout: stdout, stderr: stderr, console: console.New(stderr, console.Terminal(stderr)), closing: closeLimit,
		env: os.Environ(), signals: processSignals{child.NewSignals()}, openHost: host.Open, newPipe: newPipe,
	}
}

// signals are those of this process, and of the commands that it starts: child.Signals.
type signals interface {
	WaitContext(context.Context) (context.Context, context.CancelFunc)
	ReleaseContext(context.Context) (context.Context, context.CancelFunc)
	Start(child.Options) (command, error)
	Forwarded() bool
	Stop()
}

// command is one that was started: a *child.Child.
type command interface {
	supervise.Command
	Close()
}

// pipe takes the output of a command: a *capture.Pipe.
type pipe interface {
	Writer() *os.File
	Started()
	Finish(patience <-chan time.Time)
	Drop()
}

func newPipe(take func([]byte)) (pipe, error) {
	p, err := capture.NewPipe(take)
	if err != nil {
		return nil, err // not a pipe that is a nil *capture.Pipe
	}
	return p, nil
}

type processSignals struct{ *child.Signals }

func (s processSignals) Start(options child.Options) (command, error) {
	c, err := s.Signals.Start(options)
	if err != nil {
		return nil, err // not a command that is a nil *child.Child
	}
	return c, nil
}

// getenv returns the last value of a variable, as a process with this environment would see it.
func (a *app) getenv(name string) string {
	for _, line := range slices.Backward(a.env) {
		if value, found := strings.CutPrefix(line, name+"="); found {
			return value
		}
	}
	return ""
}
