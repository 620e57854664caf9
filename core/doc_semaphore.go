// # Buckets
//
// Buckets counts, in one place, how many permits of a name are held, and by whom. An
// acquire brings a view, capacity x width, and is granted if no more than that are held
// with it: what others' views are does not matter. Shrinking evicts nobody. The counters
// of its buckets are canal_lock's (Fred Hebert), and with one capacity on a name equal to
// them, operation for operation; with several, canal_lock grants more than anybody's
// limit or fails, and here the number held decides. The number of a bucket says how many
// are held, not which back-end to use. Its machine is the same behind messages.
//
// # Semaphores
//
// A Semaphore is Buckets' rule for a fleet: the value of a register (above), whose
// versions carry capacity and width of the last commit, a limit that the store keeps,
// and the permits, each an id, a session, a weight. A machine is all that one process
// does with one name.
//
//   - What is wanted is committed together: one version takes out what is given back,
//     what the dead held and what nobody asks for any more, and lets in who fits, in the
//     order in which they came. Who does not fit is passed over, unless he has waited for
//     a TTL while there was room for less than his weight.
//   - A permit hangs on the session of its process, which was in force when the create was
//     sent. It may be relied on while that same session is in force, and not a moment
//     longer. No deadline of its own is needed: however late its create lands, it counts
//     from the session's beat.
//   - It is dead when its session is. A session is judged by its beat, in an observation that
//     begins with the list or with the proof that the value is the newest, as of the start
//     of that observation, by the three rules of a lease: this boot's clock, the store's, or a
//     TTL of our own clock in which the beat's nonce stood still. Whoever wants room asks,
//     16 sessions an observation, and each no sooner than it can be dead: a session that lives is
//     asked about once in two thirds of its TTL. No beat is dead: the first is put before
//     a session is named. Dead is for ever.
//   - What became of a create is read off the newest value: whose id stands in it holds,
//     whose does not, does not. While a create may still land nobody is told that he does
//     not hold; its place is filled, with the value as it is if need be. Cancelled asks are
//     answered at once, and taken out before the machine is idle.
//   - A value that is known is committed on without asking for five minutes after we made
//     it, and for five seconds after we read it: a create that fails costs less than a
//     list that finds nothing new.
//   - The newest version being no record, nothing is granted for max(TTL, 60 s), by its
//     stamp or from when it was first seen, as with a corrupt lease. Then the value is that
//     of the newest version below that can be read; who was let in by the one that cannot
//     is forgotten.
//
// Promised, beside the others: PermitsWithinCapacity, at every grant what is believed to
// be held is within the view of whoever is granted, and within the stored limit that he
// committed on; and nothing leaks: what nobody holds is free a TTL (and slop, by the
// store's clock) after its session's last beat, whoever died where.
//
// Not promised: fairness between processes. A lower limit, or a smaller view, takes
// nothing from who holds already.
//
// Deviations from the protocol as it was written: a permit names no owner, for its
// session is the process's; what it has in common with the permit before it in the
// record is left out, as is a weight of 1, and a record that would be too long leaves
// out hosts, pids and labels: 64 KiB hold some 600 processes' one permit each, or 1,100
// of few processes. A permit that a live session's machine does not know is its
// leftover, and taken out.
package core
