// Package core decides. It is the state machines of leases that are kept in a
// blob store: events in, actions out, deterministic, without I/O, clock or
// randomness of its own. It speaks protocol lastwriter, which needs only get
// and put and shares mops' lock.json.
//
// What it does not do: it starts no goroutine, never blocks, does not log, and
// cannot stop code that does not ask whether its lease is still good.
//
// This page is the specification. The rest of the package is its proof.
//
// # Terms
//
//   - A lease is an expiring exclusive claim on a name. Its record is the object
//     <name>/lock.json.
//   - A tenure is one claim from acquire to its end; the holder id (mops'
//     writer_id) names it. A Lease machine is one tenure, and is made for one.
//   - A companion is a second process that keeps somebody else's tenure alive.
//   - Mono is the host's monotonic clock, suspended time included; Wall is UTC.
//     Every duration and deadline is Mono. Wall only stamps and reads records.
//   - sent(q) is the Mono of the Step that returned request q, done(q) that of
//     the Step that was given its answer. Both err to the safe side.
//   - E is the shortest TTL that anybody on the name may judge us by: our own,
//     every expire_s seen in a record, and Config.FleetExpire.
//   - The span is min(TTL - margin, 0.9 E): how long after its stamp a write may
//     be relied on. The deadline is the stamp of the last good write + span.
//
// # The host's loop
//
// A host makes a machine with New and a fresh random seed, and then only this,
// which example_test.go compiles and runs:
//
//	func loop(machine core.Machine, inbox chan core.Event, ask func(core.Action) core.Event, tell func(core.Action)) error {
//		var wake <-chan time.Time // none: no timer is set
//		for begun := false; !begun || !machine.Idle(); begun = true {
//			event := core.Event{Kind: core.EventWoke}
//			select {
//			case event = <-inbox: // a command, or the answer to a request
//			case <-wake:
//			}
//			actions, err := machine.Step(clock(), event) // clocks read now, after what the event tells of
//			if err != nil {
//				return err // the host broke the contract, and the machine is as it was
//			}
//			wake = nil
//			for _, a := range actions { // in order
//				switch a.Kind {
//				case core.ActionGet, core.ActionPut:
//					a.Body = bytes.Clone(a.Body)    // it is the machine's own
//					go func() { inbox <- ask(a) }() // within a.Limit, whatever the store does
//				case core.ActionWake:
//					wake = time.After(time.Duration(a.At - clock().Mono))
//				default:
//					tell(a) // held, renewed, refused, lost, released, ...
//				}
//			}
//		}
//		return nil
//	}
//
// The host MUST
//
//   - read the clocks for each Step, after the event that it tells of;
//   - answer every request once, within its Limit: yes, no, or unknown;
//   - not begin to apply a put after its Limit, where it can help it;
//   - copy Key, Body and Sight if they outlive the Step that returned them;
//   - treat a Step without a Wake as "no timer is set".
//
// It MAY send changed whenever the record may have changed (a file event, a
// release in the same process), woke too early, and answers in any order.
//
// # Requests
//
// At most one request is in flight that matters; issuing another, or leaving
// for a state that does not wait for it, abandons it. An answer to an abandoned
// request changes nothing. An answer to an id never issued is an error.
//
// An answer is yes, no or unknown, and unknown is everything that is not the
// store's word. What a put of unknown outcome did is found by reading: it
// landed iff writer_id, written_at and write_count of that very put are there.
// Until then it may land at any later time. In a claim this is the state
// Doubtful. While held, every renewal begins with such a read anyway, so the
// caller goes on holding, and the deadline stays where the last good write put it.
//
// # Acquire
//
//   - get. Absent, released, not fresh, or ours (a put of ours from an earlier
//     attempt that landed late), in this order -> free. Else held by another.
//   - free -> put; wait max(acquire margin, 2 x (sent(get) .. done(put)));
//     get. Only if this get shows exactly our put, still young, -> put again
//     with first_acquired_at, answered before the first put's stamp + span -> held.
//   - Ours but too old -> the same again from the put, three times at most; then,
//     or when the second put was answered too late -> what is ours is released,
//     and the attempt has failed as a lost race.
//   - A lost race: refused if the caller tries once, else back-off and again.
//     A claim that is not there although nobody won is the store's failure: the
//     back-off grows, and after five in a row for no reason that passes (or one,
//     if the caller tries once) it is refused as unusable.
//   - The later look: one get, max(1 s, 10 x the wait) after held.
//
// Fresh is mops' inclusive test with the record's own expire_s and our wall
// clock. Besides, a record that stood unchanged for its expire_s, from done of
// the first look to sent of the latest, is free whatever clocks say; with
// ExpiryObserved only then.
//
// A record that cannot be read is never free: it is held by unknown until the
// store's stamp is older than max(TTL, 60 s), or it stood unchanged as long.
// An empty one is read five times first.
//
// # Held
//
// Each E/3 x u (u in [5/6, 1]) after the last good write's stamp: get, then put.
// What the get shows decides: ours, or nothing -> put; ours and released ->
// Lost{released}; another's, in any state -> Lost{taken}; unreadable or no
// answer -> again, with back-off, until the deadline. At the deadline, before
// anything else and without waiting for I/O: Lost{unreachable} if a renewal was
// in flight or had failed since the last good one, else Lost{expired}. After
// Lost nothing of ours is written. RenewalBlind puts without the get.
//
// # Release
//
// A put in flight is waited for first. Then get; ours -> put with released_at;
// released already, or absent -> done; another's -> Lost{taken}. Retried until
// the deadline, which makes it Lost: what was not seen released is not called
// so. If a renewal's fate was unknown, Released looks again after 1 s, TTL/3 and
// TTL - margin, and releases again if that renewal lies on top.
//
// # Companion
//
// It joins by the rules in companion.go's joining and classify, in their order,
// then renews like a holder, writing writer_name "remote". It never releases.
// At its deadline it says contact_lost once and joins again; only what it reads
// (another's, released) or leave ends it.
//
// # The edges of a Lease
//
// (written by internal/gen from edges.go)
//
//	idle      -> observing  acquire: get
//	idle      -> releasing  release of a printed lease: get
//	observing -> claiming   absent, released, stale or our own late put: put
//	observing -> waiting    held by another, and the caller waits
//	observing -> refused    held by another and tried once; cancelled; limit; store unreachable or unusable
//	waiting   -> observing  poll or changed: get
//	waiting   -> refused    limit; cancelled
//	claiming  -> verifying  first put answered: wait
//	claiming  -> doubtful   a put is unknown: read it back
//	claiming  -> held       confirming put answered in time
//	claiming  -> releasing  confirming put answered too late; cancelled
//	claiming  -> refused    the store cannot be written
//	verifying -> claiming   ours: confirming put; ours but expired: first put again
//	verifying -> waiting    lost race, and the caller waits
//	verifying -> releasing  too late, expired a third time, or cancelled: what is ours is released
//	verifying -> refused    lost race, and tried once; store unusable
//	doubtful  -> verifying  the first put is there: wait
//	doubtful  -> claiming   the first put is there, the confirming one is not: confirm again
//	doubtful  -> held       the confirming put is there, read in time
//	doubtful  -> waiting    not there: lost race, or the store did not take it; and the caller waits
//	doubtful  -> releasing  too late, or cancelled
//	doubtful  -> refused    not there: lost race, or the store did not take it; and tried once, or five times; store unusable
//	held      -> releasing  release
//	held      -> lost       taken, released, unreachable, expired
//	releasing -> released   released_at is written, was there already, or the record is gone
//	releasing -> lost       another's record is there; or the deadline passed first
//	releasing -> waiting    what a failed attempt left is released, and the caller waits
//	releasing -> refused    what a failed or cancelled attempt left is released
//
// # The edges of a Companion
//
// (written by internal/gen from edges.go)
//
//	idle      -> joining    accompany: get
//	joining   -> joined     ours and fresh: put
//	joining   -> reviving   ours and expired: put
//	joining   -> refused    absent, no expiry, never acquired, unreadable or unwritable for a TTL, store unusable: cannot maintain
//	joining   -> lost       released; another's
//	joining   -> left       leave
//	reviving  -> verifying  put answered: wait
//	reviving  -> doubtful   put unknown: read it back
//	reviving  -> leaving    leave, a put in flight
//	doubtful  -> verifying  the put is there: wait
//	doubtful  -> joining    it is not, or cannot be read: join again
//	doubtful  -> lost       another's, or released
//	doubtful  -> left       leave
//	verifying -> joined     ours
//	verifying -> joining    ours but expired again, or unreadable: join again
//	verifying -> lost       released; not ours
//	verifying -> left       leave
//	joined    -> joining    deadline: contact lost, join again
//	joined    -> lost       taken, released
//	joined    -> leaving    leave, a put in flight
//	joined    -> left       leave
//	leaving   -> left       the put is answered
//
// # Which command has a meaning where
//
// acquire: idle. accompany: idle. release and cancel: everywhere but in idle; in
// an attempt they are the same, in a terminal state they are ignored. release in
// idle is for a machine made with Config.Holder. leave: everywhere but in idle.
// answer, changed and woke: everywhere. Anything else is an error, and an error
// leaves the machine as it was.
//
// # What is promised
//
//   - NoClobber: after Lost, Refused or Left nothing of ours is sent. After
//     Released only a release of our own late renewal is.
//   - No call says held past the deadline, whatever the store does.
//   - One error never drops a lease; only its deadline or its record does.
//   - EventuallyHeld: a waiter gets the lease when it is free and others stop.
//   - QuietWhenIdle: a machine that has ended sets no timer and sends nothing.
//   - With an acquire margin of at least two requests, no put that lands after
//     its limit and punctual checked renewals, two tenures' held intervals do
//     not overlap (found by complete search on a model of the protocol).
//
// # What is not promised
//
//   - A pause between a read and its put, or a put that lands late, can give a
//     name two holders. Checked renewals bound that to about one renewal interval
//     and one request; blind ones do not, and the deadline bounds only a holder
//     that cannot write.
//   - There is no fencing token: nothing in this protocol only grows.
//   - Expiry by wall clock trusts the clocks of all writers and of this machine.
//
// # Where this differs from mops, safely
//
// Renewals and releases read first; each error is retried; the waiter's poll has
// jitter; another's record is judged by its own expire_s; a released record is
// never brought back. And from the first design of this protocol:
//
//   - A claim is held to min(TTL - margin, 0.9 E), not to TTL - margin: where E is
//     the shorter, others judge the claim by E before it is even confirmed.
//   - A claim that is verified too late to be confirmed in time is put again, like
//     an expired one, instead of being confirmed in vain.
//   - With an acquire margin the claiming put is limited to land within the margin
//     of its read, since everybody who read the name free verifies after that. A
//     look that took longer than the margin is made again, three times at most.
//   - A companion revives a record that is fresh but older than the span, instead
//     of joining it: nobody could rely on it until the next renewal.
//   - E is never taken below the TTL's floor on this store.
//   - What a failed attempt left is released with a put that is given no longer than
//     the record has to live, or the margin: later it could fall on a successor.
//   - An acquire margin above half of Config.FleetExpire is refused, as mops refuses
//     one above half of its expire: the claim could be taken over before it is held.
//   - A record whose written_at and released_at are both empty is corrupt, not stale.
//   - A companion that a store refuses for good does not try for a TTL.
package core
