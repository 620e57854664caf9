//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// detach keeps the terminal's interrupt from a process: we tell it ourselves.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
