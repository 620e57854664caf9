package core

// edge is one allowed move, with what causes it.
type edge[S ~uint8] struct {
	from, to S
	why      string
}

// leaseEdges is every move that a Lease can make. become panics on any other.
// internal/gen writes the table into doc_edges.go. It is never written.
var leaseEdges = [...]edge[LeaseState]{
	{LeaseIdle, LeaseObserving, "acquire: get"},
	{LeaseIdle, LeaseReleasing, "release of a printed lease: get"},
	{LeaseObserving, LeaseClaiming, "absent, released, stale or our own late put: put"},
	{LeaseObserving, LeaseWaiting, "held by another, and the caller waits"},
	{LeaseObserving, LeaseRefused, "held by another and tried once; cancelled; limit; store unreachable or unusable"},
	{LeaseWaiting, LeaseObserving, "poll or changed: get"},
	{LeaseWaiting, LeaseRefused, "limit; cancelled"},
	{LeaseClaiming, LeaseVerifying, "first put answered: wait"},
	{LeaseClaiming, LeaseDoubtful, "a put is unknown: read it back"},
	{LeaseClaiming, LeaseHeld, "confirming put answered in time"},
	{LeaseClaiming, LeaseReleasing, "confirming put answered too late; cancelled"},
	{LeaseClaiming, LeaseRefused, "the store cannot be written"},
	{LeaseVerifying, LeaseClaiming, "ours: confirming put; ours but expired: first put again"},
	{LeaseVerifying, LeaseWaiting, "lost race, and the caller waits"},
	{LeaseVerifying, LeaseReleasing, "too late, expired a third time, or cancelled: what is ours is released"},
	{LeaseVerifying, LeaseRefused, "lost race, and tried once; store unusable"},
	{LeaseDoubtful, LeaseVerifying, "the first put is there: wait"},
	{LeaseDoubtful, LeaseClaiming, "the first put is there, the confirming one is not: confirm again"},
	{LeaseDoubtful, LeaseHeld, "the confirming put is there, read in time"},
	{LeaseDoubtful, LeaseWaiting, "not there: lost race, or the store did not take it; and the caller waits"},
	{LeaseDoubtful, LeaseReleasing, "too late, or cancelled"},
	{LeaseDoubtful, LeaseRefused, "not there: lost race, or the store did not take it; and tried once, or five times; store unusable"},
	{LeaseHeld, LeaseReleasing, "release"},
	{LeaseHeld, LeaseLost, "taken, released, unreachable, expired"},
	{LeaseReleasing, LeaseReleased, "released_at is written, was there already, or the record is gone"},
	{LeaseReleasing, LeaseLost, "another's record is there; or the deadline passed first"},
	{LeaseReleasing, LeaseWaiting, "what a failed attempt left is released, and the caller waits"},
	{LeaseReleasing, LeaseRefused, "what a failed or cancelled attempt left is released"},
}

// companionEdges is every move that a Companion can make. It is never written.
var companionEdges = [...]edge[CompanionState]{
	{CompanionIdle, CompanionJoining, "accompany: get"},
	{CompanionJoining, CompanionJoined, "ours and fresh: put"},
	{CompanionJoining, CompanionReviving, "ours and expired: put"},
	{CompanionJoining, CompanionRefused, "absent, no expiry, never acquired, unreadable or unwritable for a TTL, store unusable: cannot maintain"},
	{CompanionJoining, CompanionLost, "released; another's"},
	{CompanionJoining, CompanionLeft, "leave"},
	{CompanionReviving, CompanionVerifying, "put answered: wait"},
	{CompanionReviving, CompanionDoubtful, "put unknown: read it back"},
	{CompanionReviving, CompanionLeaving, "leave, a put in flight"},
	{CompanionDoubtful, CompanionVerifying, "the put is there: wait"},
	{CompanionDoubtful, CompanionJoining, "it is not, or cannot be read: join again"},
	{CompanionDoubtful, CompanionLost, "another's, or released"},
	{CompanionDoubtful, CompanionLeft, "leave"},
	{CompanionVerifying, CompanionJoined, "ours"},
	{CompanionVerifying, CompanionJoining, "ours but expired again, or unreadable: join again"},
	{CompanionVerifying, CompanionLost, "released; not ours"},
	{CompanionVerifying, CompanionLeft, "leave"},
	{CompanionJoined, CompanionJoining, "deadline: contact lost, join again"},
	{CompanionJoined, CompanionLost, "taken, released"},
	{CompanionJoined, CompanionLeaving, "leave, a put in flight"},
	{CompanionJoined, CompanionLeft, "leave"},
	{CompanionLeaving, CompanionLeft, "the put is answered"},
}

// strictLeaseEdges is every move that a StrictLease can make. It is never written.
var strictLeaseEdges = [...]edge[LeaseState]{
	{LeaseIdle, LeaseObserving, "acquire: list"},
	{LeaseIdle, LeaseReleasing, "release of a printed lease: list"},
	{LeaseObserving, LeaseClaiming, "free: create"},
	{LeaseObserving, LeaseWaiting, "held by another, or there is no session yet; and the caller waits"},
	{LeaseObserving, LeaseRefused, "held and tried once; cancelled; limit; store unreachable or unusable; not for us to judge"},
	{LeaseWaiting, LeaseObserving, "a newer version, changed, or it can be dead: look"},
	{LeaseWaiting, LeaseRefused, "limit; cancelled; store unusable"},
	{LeaseClaiming, LeaseHeld, "created in time"},
	{LeaseClaiming, LeaseVerifying, "created long after it was looked at: list"},
	{LeaseClaiming, LeaseDoubtful, "exists or unknown: read it back; created too late: claim above it"},
	{LeaseClaiming, LeaseReleasing, "created too late for the last time; cancelled"},
	{LeaseClaiming, LeaseRefused, "the store has not answered once"},
	{LeaseVerifying, LeaseHeld, "it is the newest"},
	{LeaseVerifying, LeaseDoubtful, "it is the newest, too late: claim above it"},
	{LeaseVerifying, LeaseWaiting, "it is not the newest, and the caller waits"},
	{LeaseVerifying, LeaseReleasing, "too late for the last time; cancelled"},
	{LeaseVerifying, LeaseRefused, "it is not the newest, and tried once"},
	{LeaseDoubtful, LeaseHeld, "a create of ours is there, in time"},
	{LeaseDoubtful, LeaseVerifying, "a create of ours is there, long after the look: list"},
	{LeaseDoubtful, LeaseClaiming, "nothing is there: create with a new nonce; ours, too late: create above it"},
	{LeaseDoubtful, LeaseWaiting, "another's is there, and the caller waits"},
	{LeaseDoubtful, LeaseObserving, "another's is there, and what we claimed by was only remembered: list"},
	{LeaseDoubtful, LeaseReleasing, "cannot be settled in time, too late for the last time, or cancelled: shut out or released"},
	{LeaseDoubtful, LeaseRefused, "another's is there, and tried once; store unusable"},
	{LeaseHeld, LeaseReleasing, "release: create"},
	{LeaseHeld, LeaseLost, "taken, broken, released, unreachable, expired"},
	{LeaseReleasing, LeaseReleased, "the version that says so is there"},
	{LeaseReleasing, LeaseLost, "taken or broken; or the deadline passed first"},
	{LeaseReleasing, LeaseWaiting, "what a failed attempt left is released or shut out, and the caller waits"},
	{LeaseReleasing, LeaseRefused, "what a failed or cancelled attempt left is released or shut out"},
}

// strictCompanionEdges is every move that a StrictCompanion can make. It is never written.
var strictCompanionEdges = [...]edge[CompanionState]{
	{CompanionIdle, CompanionJoining, "accompany: list"},
	{CompanionJoining, CompanionReviving, "the newest is our tenure's, held: create"},
	{CompanionJoining, CompanionJoined, "never (a deliberate bug joins by a beat)"},
	{CompanionJoining, CompanionRefused, "nothing there, unreadable for a TTL, newer or of another kind: cannot maintain"},
	{CompanionJoining, CompanionLost, "the newest is released, broken, or another's"},
	{CompanionJoining, CompanionLeft, "leave"},
	{CompanionReviving, CompanionJoined, "created in time"},
	{CompanionReviving, CompanionJoining, "created too late: join again"},
	{CompanionReviving, CompanionDoubtful, "exists or unknown: read it back"},
	{CompanionReviving, CompanionLeft, "leave"},
	{CompanionDoubtful, CompanionJoined, "a create of ours is there, in time"},
	{CompanionDoubtful, CompanionReviving, "nothing is there: create with a new nonce"},
	{CompanionDoubtful, CompanionJoining, "somebody else's, or too late: join again"},
	{CompanionDoubtful, CompanionRefused, "cannot be read for a TTL: cannot maintain"},
	{CompanionDoubtful, CompanionLeft, "leave"},
	{CompanionJoined, CompanionJoining, "deadline: contact lost, join again"},
	{CompanionJoined, CompanionLost, "taken, broken, released"},
	{CompanionJoined, CompanionLeaving, "leave: create without us"},
	{CompanionJoined, CompanionLeft, "leave, and there is nobody to be told"},
	{CompanionLeaving, CompanionLeft, "it is said, or cannot be"},
}

// semaphoreEdges is every move that a Semaphore can make. It is never written.
var semaphoreEdges = [...]edge[SemaphoreState]{
	{SemaphoreIdle, SemaphoreObserving, "asked for, or given back: list, or exists"},
	{SemaphoreIdle, SemaphoreCommitting, "the same, and the newest value is known: create"},
	{SemaphoreIdle, SemaphoreClosed, "leave"},
	{SemaphoreObserving, SemaphoreCommitting, "there is room, or something to take out or to shut out: create"},
	{SemaphoreObserving, SemaphoreWaiting, "no room, or no session yet; and somebody waits"},
	{SemaphoreObserving, SemaphoreDoubtful, "the store refuses what is to be given back"},
	{SemaphoreObserving, SemaphoreIdle, "nothing is left to do"},
	{SemaphoreObserving, SemaphoreClosed, "leave, and nothing of ours is left"},
	{SemaphoreCommitting, SemaphoreIdle, "made, and nothing is left to do"},
	{SemaphoreCommitting, SemaphoreWaiting, "made, and somebody waits for room"},
	{SemaphoreCommitting, SemaphoreObserving, "exists, or made long after the look: list"},
	{SemaphoreCommitting, SemaphoreDoubtful, "unknown: it may land"},
	{SemaphoreCommitting, SemaphoreClosed, "leave, and nothing of ours is left"},
	{SemaphoreDoubtful, SemaphoreObserving, "back-off: list"},
	{SemaphoreDoubtful, SemaphoreIdle, "its session is dead, or nothing is left to do"},
	{SemaphoreDoubtful, SemaphoreClosed, "leave, and its session is dead"},
	{SemaphoreWaiting, SemaphoreObserving, "poll, changed, or a session can be dead: exists, or list"},
	{SemaphoreWaiting, SemaphoreCommitting, "given back, or asked for, and the newest value is known: create"},
	{SemaphoreWaiting, SemaphoreIdle, "nobody waits any more"},
	{SemaphoreWaiting, SemaphoreClosed, "leave, and nothing of ours is left"},
}

// sessionEdges is every move that a Session can make. It is never written.
var sessionEdges = [...]edge[SessionState]{
	{SessionIdle, SessionOpening, "begin: put"},
	{SessionOpening, SessionInForce, "the first beat is good"},
	{SessionOpening, SessionClosing, "leave: list its calls"},
	{SessionInForce, SessionClosing, "leave: list its calls"},
	{SessionInForce, SessionLost, "deadline"},
	{SessionClosing, SessionClosed, "what it left is removed, or cannot be"},
}

// invocationEdges is every move that an Invocation can make. It is never written.
var invocationEdges = [...]edge[InvocationState]{
	{InvocationIdle, InvocationChecking, "begin: exists"},
	{InvocationChecking, InvocationReleasing, "the result is there: found; a remote that nothing can be kept alive for"},
	{InvocationChecking, InvocationAcquiring, "there is none, and we want one: the lease, tried once"},
	{InvocationChecking, InvocationJoining, "there is none, and we are a remote: accompany"},
	{InvocationChecking, InvocationLaunched, "a remote without an answer, or that was given no lease, and is to work without one"},
	{InvocationChecking, InvocationRefused, "cancelled; limit; store unreachable or unusable"},
	{InvocationAcquiring, InvocationConfirming, "held: exists"},
	{InvocationAcquiring, InvocationWaiting, "held by another, raced, or the store did not answer"},
	{InvocationAcquiring, InvocationReleasing, "cancelled"},
	{InvocationAcquiring, InvocationRefused, "patience is over; store unusable; not for us to judge"},
	{InvocationWaiting, InvocationChecking, "back-off, changed, or it can be dead: exists"},
	{InvocationWaiting, InvocationRefused, "cancelled; limit"},
	{InvocationJoining, InvocationConfirming, "joined, or it cannot be and is to work without a lease: exists"},
	{InvocationJoining, InvocationReleasing, "lost, or cannot be maintained: nothing is run; cancelled"},
	{InvocationConfirming, InvocationLaunched, "there is no result: launch"},
	{InvocationConfirming, InvocationReleasing, "the result is there: found; a remote's lease is lost: nothing is run; store unusable; cancelled"},
	{InvocationConfirming, InvocationChecking, "lost, or a remote lost contact, before the work began"},
	{InvocationLaunched, InvocationDelivering, "ended with a result to be stored"},
	{InvocationLaunched, InvocationSettling, "the launcher ended: exists"},
	{InvocationLaunched, InvocationReleasing, "a remote's work failed, or its lease is another's: absent; cancelled"},
	{InvocationDelivering, InvocationReleasing, "stored, or another's was there: found; the store does not take it: absent; cancelled"},
	{InvocationDelivering, InvocationChecking, "the lease is another's: nothing more is written"},
	{InvocationSettling, InvocationReleasing, "the result is there: found; it failed, or nobody goes on with it: absent; cancelled"},
	{InvocationSettling, InvocationAwaiting, "there is none yet, and a companion may be at it"},
	{InvocationSettling, InvocationChecking, "the lease was lost: whose is it now"},
	{InvocationAwaiting, InvocationSettling, "back-off, changed, or the lease was lost: exists"},
	{InvocationAwaiting, InvocationReleasing, "cancelled"},
	{InvocationReleasing, InvocationDone, "the lease is given back, left or lost"},
	{InvocationReleasing, InvocationRefused, "the same, after a cancel, or where the store cannot be used"},
}

// taskEdges is every move of a Breaker, an Observer and a Calibration. It is never written.
var taskEdges = [...]edge[TaskState]{
	{TaskIdle, TaskWorking, "begin"},
	{TaskWorking, TaskDone, "broken; seen; calibrated"},
	{TaskWorking, TaskRefused, "cancelled; nothing to break; store unreachable or unusable; not for us to judge"},
}

// checkMove panics unless the table has the move.
func checkMove[S interface {
	~uint8
	String() string
}](table []edge[S], from, to S) {
	for i := range table {
		if table[i].from == from && table[i].to == to {
			return
		}
	}
	panic("mopslock: core: invalid transition [" + from.String() + " -> " + to.String() + "]")
}
