package core

// edge is one allowed move, with what causes it.
type edge[S ~uint8] struct {
	from, to S
	why      string
}

// leaseEdges is every move that a Lease can make. become panics on any other.
// internal/gen writes the table into doc.go. It is never written.
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

func panicInvalid(from, to string) {
	panic("mopslock: core: invalid transition [" + from + " -> " + to + "]")
}
