package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	readyLimit = 20 * time.Second
	stopLimit  = 5 * time.Second
)

var errNotHere = errors.New("not installed: make peers")

// server is how a program is started on two loopback addresses, with its data in dir.
// It listens for clients on the first.
type server struct {
	program string
	args    func(dir, clients, others string) []string
}

// running is a server, and where it listens.
type running struct {
	address string

	cmd   *exec.Cmd
	said  bytes.Buffer // read it after ended
	dir   string
	ended chan struct{}
}

// start returns when the server takes connections.
func (s *server) start(ctx context.Context, installed string) (*running, error) {
	program, err := find(installed, s.program)
	if err != nil {
		return nil, err
	}
	clients, err := freeAddress()
	if err != nil {
		return nil, err
	}
	others, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mopslock-peer-")
	if err != nil {
		return nil, err
	}
	r := &running{address: clients, dir: dir, ended: make(chan struct{})}
	r.cmd = exec.Command(program, s.args(dir, clients, others)...)
	r.cmd.Dir = dir
	r.cmd.Stdout, r.cmd.Stderr = &r.said, &r.said
	if dirs := libraries(installed); dirs != "" {
		r.cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dirs)
	}
	if err := r.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	go func() {
		_ = r.cmd.Wait() // it is told to end, or awaitReady returns what it printed
		close(r.ended)
	}()
	if err := r.awaitReady(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", s.program, errors.Join(err, r.close()), r.said.Bytes())
	}
	return r, nil
}

func (r *running) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for {
		if conn, err := net.DialTimeout("tcp", r.address, time.Second); err == nil {
			return conn.Close()
		}
		select {
		case <-r.ended:
			return errors.New("it ended at once")
		case <-ctx.Done():
			return fmt.Errorf("it takes no connections: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// close ends the server, by SIGTERM and if need be by SIGKILL.
func (r *running) close() error {
	defer os.RemoveAll(r.dir)
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-r.ended:
		return nil
	case <-time.After(stopLimit):
	}
	err := r.cmd.Process.Kill()
	<-r.ended
	return err
}

// find is where a program is: among the installed, or on PATH.
func find(installed, program string) (string, error) {
	path, err := filepath.Abs(filepath.Join(installed, "usr", "bin", program))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if path, err = exec.LookPath(program); err != nil {
		return "", fmt.Errorf("%s is %w", program, errNotHere)
	}
	return path, nil
}

// libraries are the directories of the installed libraries, after those that the
// environment names.
func libraries(installed string) string {
	found, _ := filepath.Glob(filepath.Join(installed, "usr", "lib", "*-linux-*"))
	var dirs []string
	if before := os.Getenv("LD_LIBRARY_PATH"); before != "" {
		dirs = append(dirs, before)
	}
	for _, dir := range found {
		if dir, err := filepath.Abs(dir); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return strings.Join(dirs, string(os.PathListSeparator))
}

// freeAddress is a loopback address on which no process listens. If one does before
// the server does, the server ends, and start says so.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
