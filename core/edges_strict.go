package core

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

// sessionEdges is every move that a Session can make. It is never written.
var sessionEdges = [...]edge[SessionState]{
	{SessionIdle, SessionOpening, "begin: put"},
	{SessionOpening, SessionInForce, "the first beat is good"},
	{SessionOpening, SessionClosing, "leave: list its calls"},
	{SessionInForce, SessionClosing, "leave: list its calls"},
	{SessionInForce, SessionLost, "deadline"},
	{SessionClosing, SessionClosed, "what it left is removed, or cannot be"},
}

// taskEdges is every move of a Breaker, an Observer and a Calibration. It is never written.
var taskEdges = [...]edge[TaskState]{
	{TaskIdle, TaskWorking, "begin"},
	{TaskWorking, TaskDone, "broken; seen; calibrated"},
	{TaskWorking, TaskRefused, "cancelled; nothing to break; store unreachable or unusable; not for us to judge"},
}
