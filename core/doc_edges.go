// # The edges of a Lease
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
// # The edges of a strict Lease
//
//	idle      -> observing  acquire: list
//	idle      -> releasing  release of a printed lease: list
//	observing -> claiming   free: create
//	observing -> waiting    held by another, or there is no session yet; and the caller waits
//	observing -> refused    held and tried once; free, and lastwriter claims it; cancelled; limit; store unreachable or unusable; not for us to judge
//	waiting   -> observing  a newer version, changed, or it can be dead: observe
//	waiting   -> refused    limit; cancelled; store unusable
//	claiming  -> held       created in time
//	claiming  -> verifying  created as version 1, or long after the observation: list
//	claiming  -> doubtful   exists or unknown: read it back; created too late: claim above it
//	claiming  -> releasing  created too late for the last time; cancelled; the store has not answered once
//	verifying -> held       it is the newest
//	verifying -> doubtful   it is the newest, too late: claim above it
//	verifying -> waiting    it is not the newest, and the caller waits
//	verifying -> releasing  too late for the last time; cancelled
//	verifying -> refused    it is not the newest, and tried once
//	doubtful  -> held       a create of ours is there, in time
//	doubtful  -> verifying  a create of ours is there, as version 1 or long after the observation: list
//	doubtful  -> claiming   nothing is there: create with a new nonce; ours, too late: create above it
//	doubtful  -> waiting    another's is there, and the caller waits
//	doubtful  -> observing  another's is there, and what we claimed by was only remembered: list
//	doubtful  -> releasing  cannot be settled in time, too late for the last time, cancelled, or the store fails for too long: shut out or released
//	doubtful  -> refused    another's is there, and tried once; store unusable
//	held      -> releasing  release: create
//	held      -> lost       taken, broken, released, unreachable, expired
//	releasing -> released   the version that says so is there
//	releasing -> lost       taken or broken; or the deadline passed first
//	releasing -> waiting    what a failed attempt left is released or shut out, and the caller waits
//	releasing -> refused    what a failed or cancelled attempt left is released or shut out
//
// # The edges of a strict Companion
//
//	idle      -> joining    accompany: list
//	joining   -> reviving   the newest is our tenure's, held: create
//	joining   -> joined     never (a mutation joins by a beat)
//	joining   -> refused    nothing there, unreadable for a TTL, newer or of another kind: cannot maintain
//	joining   -> lost       the newest is released, broken, or another's
//	joining   -> left       leave
//	reviving  -> joined     created in time
//	reviving  -> joining    created too late: join again
//	reviving  -> doubtful   exists or unknown: read it back
//	reviving  -> left       leave
//	doubtful  -> joined     a create of ours is there, in time
//	doubtful  -> reviving   nothing is there: create with a new nonce
//	doubtful  -> joining    somebody else's, or too late: join again
//	doubtful  -> refused    cannot be read for a TTL: cannot maintain
//	doubtful  -> left       leave
//	joined    -> joining    deadline: contact lost, join again
//	joined    -> lost       taken, broken, released
//	joined    -> leaving    leave: create without us
//	joined    -> left       leave, and there is nobody to be told
//	leaving   -> left       it is said, or cannot be
//
// # The edges of a Session
//
//	idle      -> opening    begin: put
//	opening   -> in_force   the first beat is good
//	opening   -> closing    leave: list its calls
//	in_force  -> closing    leave: list its calls
//	in_force  -> lost       deadline
//	closing   -> closed     what it left is removed, or cannot be
//
// # The edges of an Invocation
//
//	idle      -> checking   begin: exists
//	checking  -> releasing  the result is there: found; a remote that nothing can be kept alive for; a remote out of contact that is cancelled
//	checking  -> acquiring  there is none, and we want one: the lease, tried once
//	checking  -> joining    there is none, and we are a remote: accompany
//	checking  -> launched   a remote without an answer, or that was given no lease, and is to work without one
//	checking  -> refused    cancelled; limit; store unreachable or unusable
//	acquiring -> confirming  held: exists
//	acquiring -> waiting    held by another, raced, or the store did not answer
//	acquiring -> releasing  cancelled
//	acquiring -> refused    patience is over; store unusable; not for us to judge
//	waiting   -> checking   back-off, changed, or it can be dead: exists
//	waiting   -> refused    cancelled; limit
//	joining   -> confirming  joined, or it cannot be and is to work without a lease: exists
//	joining   -> releasing  lost, or cannot be maintained: nothing is run; cancelled
//	confirming -> launched   there is no result: launch
//	confirming -> releasing  the result is there: found; a remote's lease is lost: nothing is run; store unusable; cancelled
//	confirming -> checking   lost, or a remote lost contact, before the work began
//	launched  -> delivering  ended with a result to be stored
//	launched  -> settling   the launcher ended: exists
//	launched  -> releasing  a remote's work failed, or its lease is another's: absent; cancelled
//	delivering -> releasing  stored, or another's was there: found; the store does not take it: absent; cancelled
//	delivering -> checking   the lease is another's: nothing more is written
//	settling  -> releasing  the result is there: found; it failed, or nobody goes on with it: absent; cancelled
//	settling  -> awaiting   there is none yet, and a companion may be at it
//	settling  -> checking   the lease was lost: whose is it now
//	awaiting  -> settling   back-off, changed, or the lease was lost: exists
//	awaiting  -> releasing  cancelled
//	releasing -> done       the lease is given back, left or lost
//	releasing -> refused    the same, after a cancel, or where the store cannot be used
//
// # The edges of a Semaphore
//
//	idle      -> observing  asked for, or given back: list, or exists
//	idle      -> committing  the same, and the newest value is known: create
//	idle      -> closed     leave
//	observing -> committing  there is room, or something to take out or to shut out: create
//	observing -> waiting    no room, or no session yet; and somebody waits
//	observing -> idle       nothing is left to do
//	observing -> closed     leave, and nothing of ours is left
//	committing -> idle       made, and nothing is left to do
//	committing -> waiting    made, and somebody waits for room
//	committing -> observing  exists, or made long after the observation: list
//	committing -> doubtful   unknown: it may land
//	committing -> closed     leave, and nothing of ours is left
//	doubtful  -> observing  back-off: list
//	doubtful  -> idle       its session is dead, or nothing is left to do
//	doubtful  -> closed     leave, and its session is dead
//	waiting   -> observing  poll, changed, or a session can be dead: exists, or list
//	waiting   -> committing  given back, or asked for, and the newest value is known: create
//	waiting   -> idle       nobody waits any more
//	waiting   -> closed     leave, and nothing of ours is left
//
// # The edges of a Revocation, an Inspection and a StoreClockSample
//
//	idle      -> working    begin
//	working   -> done       broken; seen; calibrated
//	working   -> refused    cancelled; nothing to break; store unreachable or unusable; not for us to judge
package core
