package main

import "syscall"

// ofItsOwn gives a process a group of its own, where no ^C reaches it.
func ofItsOwn() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}
