// Package servers starts real servers of the clouds' protocols for tests: on
// loopback, on a port of their own, stopped by pid when the test ends. `make servers`
// installs them, at pinned versions.
package servers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

const (
	readyLimit = 20 * time.Second
	stopLimit  = 5 * time.Second
	s3Server   = "versitygw-v1.8.0"
)

// S3 starts an S3 server with an empty bucket, and returns the bucket's store URL.
// The credentials are in the environment of the test from then on, and so of what it
// starts. The test is skipped where the server is not installed, and fails there if
// MOPSLOCK_SERVERS is set to required.
func S3(t *testing.T) string {
	t.Helper()
	path := installed(t, s3Server)
	const bucket, access, secret = "leases", "mopslock", "not-a-secret"
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, bucket), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_SESSION_TOKEN": "", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"ROOT_ACCESS_KEY": access, "ROOT_SECRET_KEY": secret,
	} {
		t.Setenv(name, value)
	}
	address := freeAddress(t)
	start(t, exec.Command(path, "--quiet", "--port", address, "posix", dir), address)
	return fmt.Sprintf("s3://%s?endpoint=http://%s&region=us-east-1&use_path_style=true", bucket, address)
}

// installed is the path of a server below bin/servers of this module.
func installed(t *testing.T, name string) string {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(here), "..", "..", "bin", "servers", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if os.Getenv("MOPSLOCK_SERVERS") == "required" {
		t.Fatalf("%s is not installed: make servers", name)
	}
	t.Skipf("%s is not installed: make servers", name)
	return ""
}

// freeAddress is a loopback address that nobody listens on. Somebody may until the
// server does; it then ends, and the test says so.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return address
}

// start runs a server until the test ends, and returns when it takes connections.
func start(t *testing.T, cmd *exec.Cmd, address string) {
	t.Helper()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in cmd.ProcessState
		close(ended)
	}()
	t.Cleanup(func() { stop(t, cmd, ended) })
	for deadline := time.Now().Add(readyLimit); ; {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-ended:
			t.Fatalf("%s has ended: %v", cmd.Path, cmd.ProcessState)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen on %s after %v: %v", cmd.Path, address, readyLimit, err)
		}
	}
}

// stop asks it to end, and then makes it.
func stop(t *testing.T, cmd *exec.Cmd, ended <-chan struct{}) {
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%s: %v", cmd.Path, err)
	}
	select {
	case <-ended:
	case <-time.After(stopLimit):
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("%s: %v", cmd.Path, err)
		}
		<-ended
	}
}
