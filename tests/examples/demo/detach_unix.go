//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach starts a process in a session of its own, so that it outlives us.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
