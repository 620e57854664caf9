// The C library libmopslock-core: the core behind C functions. The header mopslock.h is its
// document. The Makefile builds this directory.
//
// A call goes through two functions, one in C and one in Go:
//
//	mopslock_step (core.c): arguments, fork ──► goCoreStep (core.go): machines.Registry
//
// The C function comes before the Go runtime because only C can refuse a call in a
// forked child, where that runtime is dead. It includes mopslock.h and the header
// that cgo makes of the Go functions, so a difference between them does not compile.
package main

func main() {} // the build mode requires it
