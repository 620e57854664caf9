// Package stress runs real processes of mopslock-host against one local
// directory, with SIGKILL and SIGSTOP, and prints what they measured: turns,
// hand-overs, overlaps. There is no code here but tests.
//
// Each test is bounded: 5 s by default, MOPSLOCK_STRESS=30s and the like by
// `make stress`. Every process that a test starts is stopped by its pid.
package stress
