// Package trace records the events and the answers of a process's machines, and
// replays a recording to the byte.
//
// It does not decide whether a lease is well kept. A recording has no store's URL
// and no secret. Recording never delays the machines: a file that cannot be written
// ends the recording, not the lease.
//
// # The format
//
// A recording is a sequence of msgpack values, each a map with string keys, so any
// msgpack tool can read it. The first is the header; its number is the version of
// the format:
//
//	{"mopslock_trace": 1}
//
// Then comes one value for each event, in the order in which they happened.
// Machines are numbered from 1, in the order in which a host asked for them:
//
//	{"event": "made",    "machine": 1, "config": {...}, "answer": {...}}
//	{"event": "stepped", "machine": 1, "input": {...},  "answer": {...}}
//	{"event": "failed",  "machine": 1, "input": {...}}  the engine lost the machine
//	{"event": "dropped", "machine": 1}                  it is not stepped any more
//	{"event": "closed"}                                 the recording is complete
//
// Config, input and answer are the bytes of package core's messages (AppendConfig,
// AppendInput, AppendAnswer, AppendError), unchanged. A refused Config also has a
// number, and an answer with an error.
//
// No message can express a Config or an event that has text that is not UTF-8, an
// enum without a name, a key that its kind must not have, or more than MaxMessage
// bytes. If the engine refuses it, it is not recorded, because it changed nothing. If
// the engine takes it, as package core does with some keys, the machine goes on, and
// the recording stops before it.
//
// A process that was killed leaves a recording that ends without "closed", perhaps
// in the middle of a value. The part that is there can still be replayed.
//
// # Reading what strangers wrote
//
// msgpack/v5 makes room for as much as a header claims, and follows any depth of
// nesting. So ReadValue first finds the end of a value, within bounds. msgpack/v5
// gets only what ReadValue returned.
package trace

import "github.com/mopslock/mopslock/core"

// The names on the wire.
const (
	keyHeader  = "mopslock_trace"
	keyEvent   = "event"
	keyMachine = "machine"
	keyConfig  = "config"
	keyInput   = "input"
	keyAnswer  = "answer"

	eventMade    = "made"
	eventStepped = "stepped"
	eventFailed  = "failed"
	eventDropped = "dropped"
	eventClosed  = "closed"
)

// Version is the version of the format.
const Version = 1

// Limits: a bound on everything.
const (
	// MaxValue bounds the bytes of one event: two messages and their keys.
	MaxValue = 2*core.MaxMessage + 1<<10
	// MaxDepth bounds the nesting of a value. The deepest that we write is a sight
	// in an action in an answer in an event.
	MaxDepth = 8
	// MaxMachines bounds how many machines of a recording live at once.
	MaxMachines = 1 << 17

	maxQueued = 8 << 20 // bytes that wait to be written
)
