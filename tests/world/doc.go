// Package world is what a client lives in: the host that it has, a store, chance and virtual
// time. It decides nothing that a client decides, reads no clock and performs no request: who
// drives a process says when a request is taken and answered.
package world
