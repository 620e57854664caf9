// Package servers starts real servers of the clouds' protocols for tests: on
// loopback, on a port of their own, stopped by pid when the test ends. `make servers`
// installs them, at pinned versions.
package servers

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The kinds of servers, which are their URL schemes.
const (
	S3    = "s3"
	GCS   = "gs"
	Azure = "azblob"
)

// Kinds are all of them.
var Kinds = []string{S3, GCS, Azure}

// ErrNotInstalled is the error of Start where `make servers` has not been run.
var ErrNotInstalled = errors.New("not installed: make servers")

const (
	readyLimit = 2 * time.Minute
	stopLimit  = 5 * time.Second
)

// Server is a running server with one bucket, or container, which is empty at first.
type Server struct {
	Kind string
	// Address is where it listens: host:port.
	Address string

	cmd   *exec.Cmd
	said  bytes.Buffer // on stderr; read it after ended
	dir   string       // its own, removed in the end
	ended chan struct{}
}

// Need starts a server for a test, and puts Env into the environment of this process,
// and so of those that it starts. If the server is not installed, the test is skipped,
// or fails if MOPSLOCK_SERVERS is set to required.
func Need(t *testing.T, kind string) *Server {
	t.Helper()
	s, err := Start(kind)
	switch {
	case errors.Is(err, ErrNotInstalled) && !Required():
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, line := range s.Env(s.Address) {
		name, value, _ := strings.Cut(line, "=")
		t.Setenv(name, value)
	}
	return s
}

// Required reports whether a server that is not installed is a failure: it is in
// `.ci/run`, which sets MOPSLOCK_SERVERS.
func Required() bool { return os.Getenv("MOPSLOCK_SERVERS") == "required" }

// Start starts a server and makes its bucket. Close it.
func Start(kind string) (*Server, error) {
	if !slices.Contains(Kinds, kind) {
		return nil, fmt.Errorf("no server of kind %q, only of %s", kind, strings.Join(Kinds, ", "))
	}
	p := programs[kind]
	program := filepath.Join(installed(), p.file)
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%s is %w", p.file, ErrNotInstalled)
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mopslock-"+kind+"-")
	if err != nil {
		return nil, err
	}
	s := &Server{Kind: kind, Address: address, dir: dir, ended: make(chan struct{})}
	if s.cmd, err = p.command(program, address, dir); err == nil {
		s.cmd.Dir = dir // for the files that it leaves where it is started
		err = s.run()
	}
	if err == nil {
		err = p.makeBucket(s)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", p.file, err), s.Close())
	}
	return s, nil
}

// URL is the bucket's store URL at an address: the server's own, or that of a proxy
// before it.
func (s *Server) URL(address string) string { return programs[s.Kind].url(address) }

// Under is URL with a prefix.
func (s *Server) Under(address, prefix string) string {
	u, err := url.Parse(s.URL(address))
	if err != nil {
		panic("servers: " + err.Error()) // ours
	}
	u.Path = "/" + strings.Trim(prefix, "/")
	return u.String()
}

// Env is what a process needs in its environment, as NAME=value, to use the URL of
// that address: credentials, which are no secrets, and for GCS the address itself.
// Azure's are read once a process.
func (s *Server) Env(address string) []string { return programs[s.Kind].env(address) }

// Close ends the server, by SIGTERM and if need be by SIGKILL.
func (s *Server) Close() error {
	defer os.RemoveAll(s.dir)
	if s.cmd == nil || s.cmd.Process == nil {
		return nil
	}
	_ = s.Resume() // a stopped server does not obey SIGTERM
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.ended:
		return nil
	case <-time.After(stopLimit):
	}
	err := s.cmd.Process.Kill()
	<-s.ended
	return err
}

// installed is bin/servers of this module.
func installed() string {
	_, here, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(here), "..", "..", "bin", "servers")
}

// freeAddress is a loopback address on which no process listens. If one does before
// the server does, the server ends, and Start says so.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// run starts the server, and returns when it takes connections.
func (s *Server) run() error {
	s.cmd.Stderr = &s.said
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = s.cmd.Wait() // how it ended is in cmd.ProcessState
		close(s.ended)
	}()
	for deadline := time.Now().Add(readyLimit); ; {
		conn, err := net.DialTimeout("tcp", s.Address, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.ended:
			return fmt.Errorf("it has ended: %v: %s", s.cmd.ProcessState, s.said.Bytes())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("it does not listen on %s after %v: %w", s.Address, readyLimit, err)
		}
	}
}
