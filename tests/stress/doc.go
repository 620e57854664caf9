// Package stress runs real processes of mopslock-host against one local directory,
// and against a real server of each cloud's protocol behind a bad network, with SIGKILL
// and SIGSTOP, and prints what they measured: turns, hand-overs, overlaps, requests.
// There is no code here but tests.
//
// Each test is bounded: 5 s by default, MOPSLOCK_STRESS=30s and the like by
// `make stress`; storms then take a minute at least, and what is shown on servers takes
// its own time, since a TTL is 5 s or more there. Every process that a test starts is
// stopped by its pid.
package stress
