//go:build unix

package main

import (
	"os"
	"os/exec"
	"syscall"
)

// ofItsOwn gives a process a group and a terminal session of its own, where no ^C reaches it.
func ofItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// passOn gives a process an open file, which may have no name.
func passOn(cmd *exec.Cmd, belief *os.File) {
	cmd.Args = append(cmd.Args, "--belief="+inherits+"3")
	cmd.ExtraFiles = []*os.File{belief}
}
