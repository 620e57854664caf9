// The C libraries: libmopslock, and with the build tag mopslock_core
// libmopslock-core, which has the core alone. The header mopslock.h is their
// document, and this directory is built by its Makefile.
//
// A call goes through two functions, one in C and one in Go:
//
//	mopslock_step (core.c): arguments, fork ──► goCoreStep (core.go): machines.Registry
//	mopslock_open (host.c): arguments, fork ──► goOpen (host.go):     host.Open
//
// The C one stands before the Go runtime because only it can say no in a forked
// child, where that runtime is dead. It includes mopslock.h and what cgo makes of
// the Go functions, so that neither can drift from the other unseen.
//
// What is not here: any decision about leases. These functions turn arguments
// into those of packages core and host, and errors into codes.
package main

func main() {} // a library has none, and the build mode wants one
