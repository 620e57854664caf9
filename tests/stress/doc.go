// Package stress runs real processes of mopslock against one local directory, and
// against a real server of each cloud's protocol behind a bad network, with SIGKILL,
// SIGSTOP and outages. It asserts what must hold at any speed, without a clock of its
// own: the order of the lines in a ledger that all processes of a story share says what
// came first. How fast things were is printed.
//
// There is no code here but tests. Each story lasts 5 s, or MOPSLOCK_STRESS=30s and
// the like, and until it has shown something. Every process that a test starts is
// stopped by its pid.
package stress
