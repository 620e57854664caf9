// Package stress runs real processes of mopslock against one local directory, also where
// its mount comes and goes, and against a real server of each cloud's protocol behind a bad
// network, or behind one that lies, with SIGKILL, SIGSTOP and outages. It asserts what must
// hold at any speed, without a clock of its own: the order of the lines in a ledger that all
// processes of a story share says what came first. Speeds are only printed; a wide bound
// ends what hangs.
//
// The package has only tests. Each story lasts 5 s, or as long as MOPSLOCK_STRESS
// says (30s), and goes on until it has shown something. Every process that a test
// starts is stopped by its pid.
package stress
