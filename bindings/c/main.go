// The C libraries: libmopslock, and with the build tag mopslock_core
// libmopslock-core, which has the core alone. The header mopslock.h is their
// document. The Makefile builds this directory.
//
// A call goes through two functions, one in C and one in Go:
//
//	mopslock_step (core.c): arguments, fork ──► goCoreStep (core.go): machines.Registry
//	mopslock_open (host.c): arguments, fork ──► goOpen (host.go):     host.Open
//
// The C function comes before the Go runtime because only C can refuse a call in a
// forked child, where that runtime is dead. It includes mopslock.h and the header
// that cgo makes of the Go functions, so a difference between them does not compile.
//
// Nothing here decides about leases. These functions turn arguments into those of
// packages core and host, and errors into codes.
package main

func main() {} // the build mode requires it
