// Package core decides. It is the state machines of leases that are kept in a
// blob store: events in, actions out, deterministic, without I/O, clock or
// randomness of its own. It speaks two protocols: lastwriter, which needs only get
// and put and shares mops' lock.json, and strict, which needs create-if-absent and
// gives at most one holder and a fencing token.
//
// What it does not do: it starts no goroutine, never blocks, does not log, and
// cannot stop code that does not ask whether its lease is still good.
//
// This page is the specification. The rest of the package is its proof.
//
// # Terms
//
//   - A lease is an expiring exclusive claim on a name. Its record is the object
//     <name>/lock.json under lastwriter, a chain of versions under strict.
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
//				switch {
//				case a.Kind.IsRequest():
//					a.Body = bytes.Clone(a.Body)    // it is the machine's own
//					go func() { inbox <- ask(a) }() // within a.Limit, whatever the store does
//				case a.Kind == core.ActionWake:
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
//   - treat a Step without a Wake as "no timer is set";
//   - under strict, say what it knows with every event: the newest sample of the store's
//     clock, and to a lease on a session that session's id and deadline. Steps of the
//     session come before those of its leases: called and lost are told them at once.
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
//   - Whoever has waited for another, or lost a race, waits 50 ms at least before that
//     get, or half a span of a TTL too short for it. Who asks first, and finds the name
//     free, is as fast as its store.
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
// # Strict: the register
//
// A name's versions are objects that create makes once and nobody writes again:
// version n at <name>/_mopslock/<16 hex of 2^64-1-n>/v, so that byte order is newest
// first. n is the epoch. Exactly one process wins a version. Each says held,
// released or broken, and whose: a tenure, its origin (the epoch at which it was
// acquired, which is the fencing token), its owners, TTL, margin and session.
//
// An owner is one process that keeps the tenure alive: who acquired it, whose owner
// id is the tenure's own id, and companions. Each puts beats of its own beside the
// version, .../b.<owner>, and nobody else's. A session is one beat for all that a
// process holds. Every record carries a fresh nonce, the id of the boot that it was
// emitted on, and that boot's clock.
//
// # Strict: a look
//
// Reads that belong together (look.go), all of which count as made when the first
// was sent: list, which shows the newest version and its beats' stamps; its body;
// its session's beat; bodies of beats where they are needed. A waiter's look at a
// version that it knows is exists v(n+1), and the beats one by one. Three rules say
// that a tenure is dead (judge.go), and any of them frees:
//
//   - Calibrated: a lower bound of the store's clock, by an earlier answer and our own
//     clock less rho, is past the newest sign's stamp + ttl + slop. slop is the stamps'
//     unit + Config.StampSpread.
//   - Same boot: the version and all beats under every version of its tenure were
//     emitted by the clock of our boot, and the newest of them is a ttl old. Each names
//     our boot, its boottime is not in the future when it is read, and lies within
//     BootTolerance of its stamp, moved from our wall clock to our Mono; the later of
//     the two counts (Instant.Emitted). Sessions and collection ask the same.
//   - Observed: all signs stood unchanged, by their nonces, for a ttl of our clock.
//     Config.SeenPrint and SeenSince carry that on from an earlier process.
//
// No version, or one released or broken with alone, is free at once. A release or a
// break otherwise ends the version below it, whose signs of life are judged by these
// rules as if it were still held: nobody can join or renew it any more. It is also free
// when the release or the break is itself a ttl old, by the first or the last rule; if it
// names a session that may live, when the call that tells that session is.
//
// # Strict: acquire and hold
//
//   - look; free -> create v(n+1): a new tenure. Answered yes before sent(create) +
//     ttl - margin -> held. Who released the name himself a moment ago, alone, creates
//     without a look.
//   - exists or unknown -> Doubtful: read v(n+1) back. The nonce of one of our creates
//     -> that one won, and its own sent counts. Nothing there -> create again with a new
//     nonce, four at most. Another's -> lost race.
//   - Tried once and found held, where only the store's clock could tell otherwise: one
//     sample is asked for (calibrate), waited for up to 2 s, and one more look made.
//   - Won too late -> it is ours, we do not hold it, and nobody joined: claim above it.
//   - Given up in doubt -> create released at the very same key: either the late one can
//     land no more, or it has and is released above. Without a session that is a
//     courtesy; on a session it is tried as long as that lives.
//   - A claim is in doubt for a minute at most, or for one request where patience is over,
//     whatever the TTL. Then it is given up.
//   - Each ttl/3 x u (u in [5/6, 1]): put the beat, then exists v(n+1), one after the
//     other. Both answered before the deadline in force, and "no" -> deadline = sent(put)
//   - ttl - margin. "Yes" -> read it: our tenure's, held -> adopted, and the renewal
//     begins anew under the new epoch; else Lost{taken, broken, released}.
//   - Every two and a half minutes it is also asked whether our own version is still
//     there. Gone -> warned{emptied}, Lost{taken}. Not on a session, see below.
//   - Told of a change (changed), a lease or a companion that holds asks exists v(n+1)
//     beside its renewals, a second after the last such question at the soonest, and a
//     session asks for its next call. "Yes" is read as in a renewal, so that a break is
//     heard at once; "no" proves nothing, and no deadline moves by it.
//   - Without a TTL: no beats and no deadline; exists v(n+1) each 20 s.
//   - Beside a lock.json: that is read too; a fresh foreign writer in it ->
//     warned{mixed}, Lost{taken}. Such a lease stands on no session.
//
// # Strict: sessions
//
// A Session puts its beat each ttl/3 x u and then asks for the next call; every call
// that is there is told to the host (called) before the renewal counts. Past its
// deadline the id is dead for ever. A lease on it claims only while it is in force,
// believes until the later of its own create's deadline and the session's, and has no
// request and no timer of its own while held. Told of a call it reads the chain above
// itself, and until it has, its deadline stays where the session's was.
//
// # Strict: the others
//
//   - A companion lists, reads the newest, and if that is its tenure's and held creates
//     the next version with itself in owners. No clock is involved. At its deadline it
//     says contact_lost once and joins again. Leaving, it makes a version without itself.
//   - Release makes v(n+1) released, alone if owners is nobody but us. Where the proof that
//     n is the newest is older than five minutes it lists first: a create far below would
//     win what was collected there. Where an owner of
//     ours was faster it is adopted and v(n+2) made. A break makes v(n+1) broken, then the
//     call to its session; with now it is alone, the one declared exception to NoOverlap.
//     It is also alone where the breaker's own look shows v(n) to be dead. That verdict is
//     of v(n) alone: if somebody else makes v(n+1), the breaker looks again.
//     Given a Holder it breaks that tenure, and is refused (held) where another holds.
//   - The winner of every sixteenth version collects what was superseded G ago: G = max(8
//     ttl + 10 s, 10 min) by the store's clock or the boot's, the newest three never.
//   - "There is nothing above n" may be believed only if it was answered within five
//     minutes of the earlier proof that n is the newest; else a list must say it. The
//     same holds for a create that was won.
//
// # Which command has a meaning where
//
// acquire: idle. accompany: idle. release and cancel: everywhere but in idle; in
// an attempt they are the same, in a terminal state they are ignored. release in
// idle is for a machine made with Config.Holder. leave: everywhere but in idle.
// answer, changed and woke: everywhere. Anything else is an error, and an error
// leaves the machine as it was.
//
// A session, a breaker, an observer and a calibration: begin in idle; leave (session) and
// cancel (the others) everywhere but in idle. called: everywhere, for leases and
// companions under strict.
//
// # Buckets
//
// Buckets count the permits that are held on one name in this process: pure data,
// which needs no host. Acquire(capacity, width, weight, holder) is granted iff with
// the weight no more than capacity x width are held, capacity and width being those of
// this call: each caller's own view, which nobody else needs to share. Release and Down
// take back what the holder holds. What is refused (full, too_heavy, out_of_buckets)
// leaves what is held as it was; Release takes all of its weight or none of it.
//
// The idea is Fred Hebert's canal_lock, and with one capacity on a name it is that
// in sequence, result for result. So are the counters, capacity permits in each of
// width buckets from left to right, where a bucket shows one more than it has once
// somebody walked past it while it was full. In canal_lock they are what is held; here
// they are a view of it, and two capacities on one name neither grant too much nor
// too little. A view that shrinks evicts nobody. The number of a bucket says how many
// are held, not which back-end to use.
//
// buckets.Machine is Buckets behind messages: acquire, release and down in its one
// state, ready; changed and woke only count; answers are to nothing that it asked.
//
// # What is promised
//
//   - NoClobber: after Lost, Refused or Left nothing of ours is sent. After
//     Released only a release of our own late renewal is.
//
//   - No call says held past the deadline, whatever the store does.
//
//   - One error never drops a lease; only its deadline or its record does.
//
//   - EventuallyHeld: a waiter gets the lease when it is free and others stop.
//
//   - QuietWhenIdle: a machine that has ended sets no timer and sends nothing.
//
//   - With an acquire margin of more than two requests (by what clock rates differ), no
//     put that lands after its limit and punctual checked renewals, two tenures' held
//     intervals do not overlap (tests/explore, and a complete search of a model).
//
//   - Under strict: EpochOnlyGrows, OneHolderPerEpoch, NoOverlap: two tenures' believed
//     intervals never overlap while clock rates differ by less than 1 %, the store is
//     linearizable, and nobody breaks with now or breaks what has no TTL; whatever is
//     lost, late, paused or killed (tests/explore).
//
// # What is not promised
//
//   - A pause between a read and its put, or a put that lands late, can give a
//     name two holders. Checked renewals bound that to about one renewal interval
//     and one request; blind ones do not, and the deadline bounds only a holder
//     that cannot write.
//   - Under lastwriter there is no fencing token: nothing in that protocol only grows.
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
//   - A contended claim is verified no sooner than 50 ms after its put (ContendedMargin).
//     By twice what its own requests took, 1 to 8 of 300 tenures of five processes on one
//     directory overlapped: the processes held each other up for longer than that.
//   - An acquire margin above half of Config.FleetExpire is refused, as mops refuses
//     one above half of its expire: the claim could be taken over before it is held.
//   - A record whose written_at and released_at are both empty is corrupt, not stale.
//   - A companion that a store refuses for good does not try for a TTL.
//
// # Where strict differs from the protocol as it was written, and why
//
//   - Same boot (S5.2, which was argued and not explored) counts the beats under every
//     version of the tenure, not those under the newest. A join carries the time at which
//     it was emitted and can land much later, while another owner renewed under the version
//     below: that version is old, and its owner believes. See newestBoottime.
//   - For the same reason nothing is freed by the boottime of a release, a break or a call:
//     an owner that renewed before it landed may believe longer. The signs of the tenure
//     count instead, and for a session the stamp of the call, or its having stood for a ttl.
//     Both rules as they were argued are deliberate bugs of the explorer: same-boot-newest
//     and same-boot-freed.
//   - What was released or broken was free a ttl after that, so a dead lease became free
//     later by being broken. Now the signs of life below it count as well
//     (ended-beats-missed). Its own stamp stays a bound, since a renewal asks after its beat
//     was answered (exists-beside-put).
//   - The same-boot rule does not hold on any store: where a put that was given up can land on top of a
//     newer one the beat shows an older time than its owner counts from. A host gives a
//     Boot only where that cannot be and stamps are of its own kernel's clock
//     (directories on local file systems); elsewhere the store's stamps judge.
//   - Where boottime and stamp differ within the tolerance, the later counts: a clone that
//     is less than the tolerance ahead would else take a short lease from who lives. A
//     sign that fails is no longer of our boot, and does not make a lease look young.
//     The check left out is a deliberate bug: boot-clock-unchecked.
//   - The window of a proof is five minutes for everybody, half of the least G, and it ends
//     at the answer, not when the question was sent. A collector cannot know the TTL of
//     everybody who may still believe in a version, so nobody relies on more than the least.
//     Who renews less often than that (TTL above 15 min) lists instead.
//   - A renewal asks after its beat was answered, never at once: one request in flight a
//     machine, and every renewal that is good has its beat in the store before the question
//     was answered. The same-boot rule for what is released or broken rests on that.
//   - "Exists" is read back like an unknown answer: a proxy that sends twice says it of
//     one's own success. It costs a get on a lost race, of the version that a waiter needs.
//   - A join reads the body of the newest version (list, get, create): it has to copy
//     margin, session and owners, and a prefix that was emptied may count from 1 again.
//   - Companions have no session of their own. A lease beside a lock.json has none
//     either, since it may have to be yielded without a word.
//   - A lease on a session does not ask whether its own version is still there (N7); it
//     hears of an emptied prefix when it is released, and believes beside the next holder
//     until then. One exists a lease would be 24 requests an hour each, and a session is
//     there so that a lease costs none.
//   - Where neither the store's clock nor a boot's can be told, nothing is collected.
package core
