//go:build unix

package main

import (
	"os/exec"
	"strconv"
	"syscall"
	"testing"
)

// A keeper whose parent has died ends, although a process that has its messages' ends lives on; and a terminal's
// signals do not end it.
func TestKeepEndsWithItsParent(t *testing.T) {
	s := newScene(t)
	parent := exec.Command("sleep", "1000")
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	p := s.command("mopslock-host", "keep", "--parent", strconv.Itoa(parent.Process.Pid))
	stdin, err := p.cmd.StdinPipe() // which stays open
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.err
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.says("ready")
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM, syscall.SIGQUIT} {
		if err := p.cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	p.mustExit(0)
}
