// Package check holds what every protocol has to keep, as checkers that the
// explorer and the simulator share: each looks at what machines said and what
// the store took, and answers with a Violation or with nothing.
//
// It runs no machine, keeps no time and knows no store. It is told of things in
// the order in which they happened, and believes them.
//
// The checkers, by the names that a Violation carries:
//
//   - EpochOnlyGrows: the newest version of a name never goes back, and a tenure
//     that begins has a greater token than every one that began before it.
//   - OneHolderPerEpoch: no two tenures have said that one epoch is theirs.
//   - NoOverlap: no two tenures of a name are relied on at one true instant; the
//     owners of one tenure, also companions, count as one.
//   - NoResurrection: a tenure that a version has ended (released, broken or
//     another's) is not the value again, and what has ended or expired is not said to
//     be held or renewed.
//   - NoClobber: nothing that changes the store is sent for a claim that was lost, refused
//     or left, but for what releases a refused attempt, and no process puts over what is
//     not its own.
//   - EventuallyHeld: when all others have stopped, the waiter gets the lease.
//   - QuietWhenIdle: a client that waits for nothing has no claim that could end, and wants
//     no wake.
//   - CallEndsBelief: what a session is told to be broken is not believed as long as that
//     session lasts, until its client has found out.
//   - SessionFirst: that a session is past its deadline is told before anything of what
//     stands on it.
//
// And of invocations:
//
//   - FirstResultWins: what is stored as the result is never another's later, where
//     the store creates.
//   - LoserWritesNothing: an invocation whose lease is taken or broken sends no result.
//   - NoIdleDouble: work is launched under a lease that is relied on and while no other
//     is relied on, and not if its result was there when that lease was won.
//   - ResultHeeded: an invocation that was told that the result is there launches
//     nothing and sends none.
//   - FoundIsThere: a result that is said to be found is in the store.
//
// And of permits:
//
//   - PermitsWithinCapacity: when a permit is given, no more is relied on with it than
//     capacity x width of its asker, nor than the limit that it was committed on.
//   - NothingLeaks: when all have died or given everything back, a newcomer gets all.
package check
