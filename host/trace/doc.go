// Package trace records what the machines of a process were told and what they
// answered, and runs a recording again, to the byte.
//
// It does not decide whether a lease is well kept, holds no store's URL and no
// secret of one, and never delays the machines that it records: a file that
// cannot be written ends the recording, not the lease.
//
// # The format
//
// A recording is msgpack values back to back, each a map with string keys, so
// any msgpack tool can read it. The first is the header; its number is the
// version of the format:
//
//	{"mopslock_trace": 1}
//
// Then comes one value for each event, in the order in which they happened.
// Machines are numbered from 1 in the order in which they were asked for:
//
//	{"event": "made",    "machine": 1, "config": {...}, "answer": {...}}
//	{"event": "stepped", "machine": 1, "input": {...},  "answer": {...}}
//	{"event": "failed",  "machine": 1, "input": {...}}  the engine lost the machine
//	{"event": "dropped", "machine": 1}                  it is not stepped any more
//	{"event": "closed"}                                 the recording is complete
//
// Config, input and answer are the very bytes of package core's messages
// (AppendConfig, AppendInput, AppendAnswer, AppendError), embedded as they are.
// A Config that was refused has a number too, and an answer with an error.
//
// What no message can say (text that is not UTF-8, an enum without a name, a key
// that its kind must not have, more than MaxMessage bytes) is not recorded if it
// was refused, because nothing came of it. An engine that takes it, as package
// core does with some keys, goes on, and its recording stops before it.
//
// A process that was killed leaves a recording that ends without "closed",
// perhaps in the middle of a value. What is there can be replayed all the same.
//
// # Reading what strangers wrote
//
// msgpack/v5 makes room for as much as a header claims, and follows nesting as
// deep as it goes. ReadValue therefore finds the end of a value first, within
// bounds, and only what it returned is given to msgpack/v5.
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

// Version is the format's.
const Version = 1

// Limits: a bound on everything.
const (
	// MaxValue is bytes of one event: two messages and their keys.
	MaxValue = 2*core.MaxMessage + 1<<10
	// MaxDepth is how deep a value may be nested; a sight in an action in an
	// answer in an event is the deepest that we write.
	MaxDepth = 8
	// MaxMachines is how many machines of a recording may live at once.
	MaxMachines = 1 << 17

	maxQueued = 8 << 20 // bytes that wait to be written
)
