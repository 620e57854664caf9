//go:build unix

package main

import "syscall"

// ofItsOwn gives a process a group and a terminal session of its own, where no ^C reaches it.
func ofItsOwn() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
