// Command scale runs a whole fleet in virtual time: 100,000 orchestrators that hold
// 1,000,000 leases on their sessions, each with the real client of the core, over stores
// that have the latency and the rate limits of clouds. It writes README.md beside it:
// requests, throttling, lateness, hand-over, losses and money. `make scale` runs it.
//
// The same seed gives the same report, to the byte. It does no I/O, says nothing about
// real clouds beyond their documented limits, and looks for no faults of the protocol:
// that is tests/explore and tests/simulate.
package main
