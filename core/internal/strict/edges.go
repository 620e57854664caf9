package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// LeaseEdges is every move that a Lease can make. It is never written.
var LeaseEdges = [...]base.Edge[core.LeaseState]{
	{From: core.LeaseIdle, To: core.LeaseObserving, Why: "acquire: list"},
	{From: core.LeaseIdle, To: core.LeaseReleasing, Why: "release of a printed lease: list"},
	{From: core.LeaseObserving, To: core.LeaseClaiming, Why: "free: create"},
	{From: core.LeaseObserving, To: core.LeaseWaiting, Why: "held by another, or there is no session yet; and the caller waits"},
	{From: core.LeaseObserving, To: core.LeaseRefused, Why: "held and tried once; free, and lastwriter claims it; cancelled; limit; store unreachable or unusable; not for us to judge"},
	{From: core.LeaseWaiting, To: core.LeaseObserving, Why: "a newer version, changed, or it can be dead: observe"},
	{From: core.LeaseWaiting, To: core.LeaseRefused, Why: "limit; cancelled; store unusable"},
	{From: core.LeaseClaiming, To: core.LeaseHeld, Why: "created in time"},
	{From: core.LeaseClaiming, To: core.LeaseVerifying, Why: "created as version 1, or long after the observation: list"},
	{From: core.LeaseClaiming, To: core.LeaseDoubtful, Why: "exists or unknown: read it back; created too late: claim above it"},
	{From: core.LeaseClaiming, To: core.LeaseReleasing, Why: "created too late for the last time; cancelled; the store has not answered once"},
	{From: core.LeaseVerifying, To: core.LeaseHeld, Why: "it is the newest"},
	{From: core.LeaseVerifying, To: core.LeaseDoubtful, Why: "it is the newest, too late: claim above it"},
	{From: core.LeaseVerifying, To: core.LeaseWaiting, Why: "it is not the newest, and the caller waits"},
	{From: core.LeaseVerifying, To: core.LeaseReleasing, Why: "too late for the last time; cancelled"},
	{From: core.LeaseVerifying, To: core.LeaseRefused, Why: "it is not the newest, and tried once"},
	{From: core.LeaseDoubtful, To: core.LeaseHeld, Why: "a create of ours is there, in time"},
	{From: core.LeaseDoubtful, To: core.LeaseVerifying, Why: "a create of ours is there, as version 1 or long after the observation: list"},
	{From: core.LeaseDoubtful, To: core.LeaseClaiming, Why: "nothing is there: create with a new nonce; ours, too late: create above it"},
	{From: core.LeaseDoubtful, To: core.LeaseWaiting, Why: "another's is there, and the caller waits"},
	{From: core.LeaseDoubtful, To: core.LeaseObserving, Why: "another's is there, and what we claimed by was only remembered: list"},
	{From: core.LeaseDoubtful, To: core.LeaseReleasing, Why: "cannot be settled in time, too late for the last time, cancelled, or the store fails for too long: shut out or released"},
	{From: core.LeaseDoubtful, To: core.LeaseRefused, Why: "another's is there, and tried once; store unusable"},
	{From: core.LeaseHeld, To: core.LeaseReleasing, Why: "release: create"},
	{From: core.LeaseHeld, To: core.LeaseLost, Why: "taken, broken, released, unreachable, expired"},
	{From: core.LeaseReleasing, To: core.LeaseReleased, Why: "the version that says so is there"},
	{From: core.LeaseReleasing, To: core.LeaseLost, Why: "taken or broken; or the deadline passed first"},
	{From: core.LeaseReleasing, To: core.LeaseWaiting, Why: "what a failed attempt left is released or shut out, and the caller waits"},
	{From: core.LeaseReleasing, To: core.LeaseRefused, Why: "what a failed or cancelled attempt left is released or shut out"},
}

// CompanionEdges is every move that a Companion can make. It is never written.
var CompanionEdges = [...]base.Edge[core.CompanionState]{
	{From: core.CompanionIdle, To: core.CompanionJoining, Why: "accompany: list"},
	{From: core.CompanionJoining, To: core.CompanionReviving, Why: "the newest is our tenure's, held: create"},
	{From: core.CompanionJoining, To: core.CompanionJoined, Why: "never (a mutation joins by a beat)"},
	{From: core.CompanionJoining, To: core.CompanionRefused, Why: "nothing there, unreadable for a TTL, newer or of another kind: cannot maintain"},
	{From: core.CompanionJoining, To: core.CompanionLost, Why: "the newest is released, broken, or another's"},
	{From: core.CompanionJoining, To: core.CompanionLeft, Why: "leave"},
	{From: core.CompanionReviving, To: core.CompanionJoined, Why: "created in time"},
	{From: core.CompanionReviving, To: core.CompanionJoining, Why: "created too late: join again"},
	{From: core.CompanionReviving, To: core.CompanionDoubtful, Why: "exists or unknown: read it back"},
	{From: core.CompanionReviving, To: core.CompanionLeft, Why: "leave"},
	{From: core.CompanionDoubtful, To: core.CompanionJoined, Why: "a create of ours is there, in time"},
	{From: core.CompanionDoubtful, To: core.CompanionReviving, Why: "nothing is there: create with a new nonce"},
	{From: core.CompanionDoubtful, To: core.CompanionJoining, Why: "somebody else's, or too late: join again"},
	{From: core.CompanionDoubtful, To: core.CompanionRefused, Why: "cannot be read for a TTL: cannot maintain"},
	{From: core.CompanionDoubtful, To: core.CompanionLeft, Why: "leave"},
	{From: core.CompanionJoined, To: core.CompanionJoining, Why: "deadline: contact lost, join again"},
	{From: core.CompanionJoined, To: core.CompanionLost, Why: "taken, broken, released"},
	{From: core.CompanionJoined, To: core.CompanionLeaving, Why: "leave: create without us"},
	{From: core.CompanionJoined, To: core.CompanionLeft, Why: "leave, and there is nobody to be told"},
	{From: core.CompanionLeaving, To: core.CompanionLeft, Why: "it is said, or cannot be"},
}

// SessionEdges is every move that a Session can make. It is never written.
var SessionEdges = [...]base.Edge[core.SessionState]{
	{From: core.SessionIdle, To: core.SessionOpening, Why: "begin: put"},
	{From: core.SessionOpening, To: core.SessionInForce, Why: "the first beat is good"},
	{From: core.SessionOpening, To: core.SessionClosing, Why: "leave: list its calls"},
	{From: core.SessionInForce, To: core.SessionClosing, Why: "leave: list its calls"},
	{From: core.SessionInForce, To: core.SessionLost, Why: "deadline"},
	{From: core.SessionClosing, To: core.SessionClosed, Why: "what it left is removed, or cannot be"},
}

// TaskEdges is every move of a Revocation, an Inspection and a StoreClockSample. It is never written.
var TaskEdges = [...]base.Edge[core.TaskState]{
	{From: core.TaskIdle, To: core.TaskWorking, Why: "begin"},
	{From: core.TaskWorking, To: core.TaskDone, Why: "broken; seen; calibrated"},
	{From: core.TaskWorking, To: core.TaskRefused, Why: "cancelled; nothing to break; store unreachable or unusable; not for us to judge"},
}
