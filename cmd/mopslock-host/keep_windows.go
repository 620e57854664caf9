package main

import (
	"os"
	"os/exec"
	"syscall"
)

// ofItsOwn gives a process a group of its own and no console, whose ^C or end would reach it.
func ofItsOwn() *syscall.SysProcAttr {
	const detachedProcess = 0x8 // DETACHED_PROCESS
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP | detachedProcess}
}

// passOn has a process open the file by its name: none is inherited here.
func passOn(cmd *exec.Cmd, belief *os.File) { cmd.Args = append(cmd.Args, "--belief="+belief.Name()) }
