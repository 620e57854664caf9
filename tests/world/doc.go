// Package world is what a client lives in: a store, and the host that a client has. It decides
// nothing that a client decides, reads no clock and performs no request: who drives a process
// says when a request is taken and answered, as the explorer does in every order.
package world
