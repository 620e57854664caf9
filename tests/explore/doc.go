// Package explore searches all that can happen to a few clients of the core,
// breadth first, for something that must not: each actor is a process with a real
// client, and so what a process does is explored as it is built, not as a model of it.
// Programs that imitate the protocols that came before run in the same world.
//
// It reads no clock but to tell how long it took, opens no store and starts no
// process that a scenario does not name. It proves nothing beyond its bounds: a few
// actors, whole ticks, some faults, some states; the summary says which bound was
// met.
//
// # The world
//
// A request is sent, applied and answered at three separate moments. Between
// them other actors act and time passes. A reply can be lost (unknown, though
// applied), and a write that was not applied can be given up (unknown) and land
// at any later time. An actor can crash, and it can be paused: it is simply not
// scheduled while time passes. Each actor's clocks have a rate and an offset of
// their own, exact in integers; the store stamps with a clock of its own, floored.
//
// The work of an invocation is only its end, which the world tells it at any
// time: well, with bytes to be stored or without, or badly. A remote is started by
// a launch, with the lease that was held then, at once or later or never.
//
// # The states
//
// A world is a few numbers: each actor's state, the store, a reply and a request
// are interned, so that what many worlds share is kept once, and a Step of a
// client that was made before, from the same state at the same instant with the
// same event, is remembered instead of made again. Two worlds are one if 128 bits
// of a hash of them agree. States that no client can tell apart are normalised to
// one before they are hashed; canon.go says how, and why that is sound.
//
// All worlds without a fault come first, then all with one, and so on: a fault is
// a lost reply, a late write, a crash, or a pause. A search that is bounded ends at
// its bound of states, time or memory, and says which. Successors come in one order, so
// that a search does the same each time; its counter-example is a shortest one of
// those with the fewest faults.
package explore
