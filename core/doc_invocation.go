// # Invocations
//
// An Invocation is one call of a piece of work whose result is the object
// <name>/result. It drives the lease machines above, one at a time, by the rules
// above, and adds these:
//
//   - The result is looked for before every attempt, and once more when the lease is
//     held or joined: whoever comes late finds it, and the work is not begun again.
//   - The lease is tried once. Held elsewhere: again after 1, 2, 4 ... 22 s, a fifth more
//     or less (under strict 5 s at most), or when what was seen can be dead, or when it is told that something
//     changed. What was seen of the other, and since when it stood unchanged, goes on
//     from one attempt to the next. Each attempt is a tenure of its own.
//   - The result is stored if there is none (create_result; no is as good as yes, and
//     an unknown one is asked again), so that the first result stays. Where the store
//     has no create: exists, then put_result. What failed work came to is stored at
//     another key, only if that is wanted, and only where there is no result.
//   - Taken or broken while the work runs: nothing more is written at these keys. Past
//     the deadline a result is still offered where the first one wins by the store's
//     word, and not where it does not. Then whoever wanted the result is a waiter again.
//   - The launcher may end before the work: if it ended well and there is no result, the
//     lease is held on to while a companion shows signs of life. Under strict these are
//     its beats, by the owners that the newest version names; under lastwriter a write
//     with writer_name "remote", which a renewal sees before it writes over it. A TTL
//     after the last of them, or 5 s after the launcher's end or the companion's
//     leaving, there is no result (absent).
//   - The end of the work, whatever it is, gives the lease back; so does a cancel.
//   - A remote accompanies. Late, it runs nothing: found, lost, or cannot_maintain, the
//     last of which Config.WithoutLease overrides. It gives nothing back but itself.
//
// Its own requests have odd ids, those of the lease in it even ones: one of each may be
// in flight that matters, and an answer goes where its number says. Notices of the
// lease pass through, but that it was refused.
//
// Two deviations. While it waits for what a companion will store, the orchestrator goes
// on renewing under lastwriter, too: the renewals see the companion's writes, and a
// companion that is out of touch for a moment does not lose the name to a third. And
// failures are at _mopslock/f/<name>/result, not below the name: what lists a name's
// versions must not meet them.
package core
