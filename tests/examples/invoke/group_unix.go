//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach starts a process in a session of its own, so that it outlives us.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// ownGroup starts a process at the head of a process group.
func ownGroup(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

// killGroup kills the process group that pid is the head of.
func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
