// # Metrics
//
// The metrics of a Host with Options.Meter. Names, units and attributes are stable;
// no attribute has a name, a holder, a key, a URL or any other text of users in it:
//
//	metric                       type           unit       attributes             what it says
//	mopslock.acquire.duration    histogram      s          kind protocol outcome  how long who asked for a lease, a permit, to join or to have work done waited for the answer
//	mopslock.handover.duration   histogram      s          protocol from          from a lease's release to held by who waited: here, exactly; elsewhere, at most (see below)
//	mopslock.takeovers           counter        {lease}    protocol               leases that who waited took from a dead holder
//	mopslock.renewals            counter        {renewal}  kind protocol outcome  renewals that were good, and requests of renewals without an answer, which are tried again
//	mopslock.renewal.left        histogram      1          kind protocol          how much was left to the deadline when a renewal's answer came, as a share of the TTL; 0 and below is late
//	mopslock.losses              counter        {loss}     kind protocol reason   what was held, or joined, and lost before it was given back
//	mopslock.requests            counter        {request}  verb outcome           requests to the store that have ended
//	mopslock.request.duration    histogram      s          verb                   how long they took
//	mopslock.requests.in_flight  updowncounter  {request}  -                      requests that are with the store
//	mopslock.leases.held         updowncounter  {lease}    kind protocol          leases held, or kept alive for another (kind companion)
//	mopslock.permits.held        updowncounter  {permit}   -                      permits held by this process, by their weights
//	mopslock.sessions            updowncounter  {session}  -                      sessions in force
//	mopslock.waiters             updowncounter  {waiter}   kind                   who has asked and has no answer yet
//
// kind is lease, companion, permit, session or invocation (which ends with held when
// there is work to launch, with found when there is a result). protocol is strict or
// lastwriter, or unknown where the store was not there to tell. outcome of acquire is
// held, found, refused (another holds it, or there is no room), unavailable (the
// store), unfit, cancelled or lost; of renewals renewed or failed; of requests yes,
// no (absent, exists), cancelled, or the class of the failure.
//
// A release by this Host and the held that follows are on one clock: from is here. Of
// others' releases nobody tells when they were. A waiter knows that the holder had
// not released when it sent its last look that still showed him: from is elsewhere,
// and the time counts from there, so it is too long by a poll at most.
//
//	holder   . . . . . . . . . . put(released)
//	waiter   look(held) . . . . . . . . . . . . look(released) put ──── held
//	         |------------------ elsewhere -------------------------------|
//
// What stands on a session is held and lost for itself; what is renewed is the session,
// and a renewal of it is one.
package host
