// Package simulate runs the core's real clients, one for each of tens to thousands of
// processes, in virtual time over a store in memory: processes that acquire, hold and
// release, companions, breakers, crashes, closes and restarts, and for each seed another
// swarm of faults. Everything follows from the seed: the same seed gives the same
// events on every machine, which the hash of a Result shows. The run checks as it
// goes, by name, that nothing happens that must never happen (check.go).
//
// It does not search: it sees the interleavings that its seeds happen to give,
// at a scale that no search can reach. It does no I/O and reads no clock, and
// says nothing about what a real store or a real host does.
package simulate
