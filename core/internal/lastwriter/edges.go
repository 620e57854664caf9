package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// LeaseEdges is every move that a Lease can make. become panics on any other.
// internal/gen writes the table into doc_edges.go. It is never written.
var LeaseEdges = [...]base.Edge[core.LeaseState]{
	{From: core.LeaseIdle, To: core.LeaseObserving, Why: "acquire: get"},
	{From: core.LeaseIdle, To: core.LeaseReleasing, Why: "release of a printed lease: get"},
	{From: core.LeaseObserving, To: core.LeaseClaiming, Why: "absent, released, stale or our own late put: put"},
	{From: core.LeaseObserving, To: core.LeaseWaiting, Why: "held by another, and the caller waits"},
	{From: core.LeaseObserving, To: core.LeaseRefused, Why: "held by another and tried once; cancelled; limit; store unreachable or unusable"},
	{From: core.LeaseWaiting, To: core.LeaseObserving, Why: "poll or changed: get"},
	{From: core.LeaseWaiting, To: core.LeaseRefused, Why: "limit; cancelled"},
	{From: core.LeaseClaiming, To: core.LeaseVerifying, Why: "first put answered: wait"},
	{From: core.LeaseClaiming, To: core.LeaseDoubtful, Why: "a put is unknown: read it back"},
	{From: core.LeaseClaiming, To: core.LeaseHeld, Why: "confirming put answered in time"},
	{From: core.LeaseClaiming, To: core.LeaseReleasing, Why: "confirming put answered too late; cancelled"},
	{From: core.LeaseClaiming, To: core.LeaseRefused, Why: "the store cannot be written"},
	{From: core.LeaseVerifying, To: core.LeaseClaiming, Why: "ours: confirming put; ours but expired: first put again"},
	{From: core.LeaseVerifying, To: core.LeaseWaiting, Why: "lost race, and the caller waits"},
	{From: core.LeaseVerifying, To: core.LeaseReleasing, Why: "too late, expired a third time, or cancelled: what is ours is released"},
	{From: core.LeaseVerifying, To: core.LeaseRefused, Why: "lost race, and tried once; store unusable"},
	{From: core.LeaseDoubtful, To: core.LeaseVerifying, Why: "the first put is there: wait"},
	{From: core.LeaseDoubtful, To: core.LeaseClaiming, Why: "the first put is there, the confirming one is not: confirm again"},
	{From: core.LeaseDoubtful, To: core.LeaseHeld, Why: "the confirming put is there, read in time"},
	{From: core.LeaseDoubtful, To: core.LeaseWaiting, Why: "not there: lost race, or the store did not take it; and the caller waits"},
	{From: core.LeaseDoubtful, To: core.LeaseReleasing, Why: "too late, or cancelled"},
	{From: core.LeaseDoubtful, To: core.LeaseRefused, Why: "not there: lost race, or the store did not take it; and tried once, or five times; store unusable"},
	{From: core.LeaseHeld, To: core.LeaseReleasing, Why: "release"},
	{From: core.LeaseHeld, To: core.LeaseLost, Why: "taken, released, unreachable, expired"},
	{From: core.LeaseReleasing, To: core.LeaseReleased, Why: "released_at is written, was there already, or the record is gone"},
	{From: core.LeaseReleasing, To: core.LeaseLost, Why: "another's record is there; or the deadline passed first"},
	{From: core.LeaseReleasing, To: core.LeaseWaiting, Why: "what a failed attempt left is released, and the caller waits"},
	{From: core.LeaseReleasing, To: core.LeaseRefused, Why: "what a failed or cancelled attempt left is released"},
}

// CompanionEdges is every move that a Companion can make. It is never written.
var CompanionEdges = [...]base.Edge[core.CompanionState]{
	{From: core.CompanionIdle, To: core.CompanionJoining, Why: "accompany: get"},
	{From: core.CompanionJoining, To: core.CompanionJoined, Why: "ours and fresh: put"},
	{From: core.CompanionJoining, To: core.CompanionReviving, Why: "ours and expired: put"},
	{From: core.CompanionJoining, To: core.CompanionRefused, Why: "absent, no expiry, never acquired, unreadable or unwritable for a TTL, store unusable: cannot maintain"},
	{From: core.CompanionJoining, To: core.CompanionLost, Why: "released; another's"},
	{From: core.CompanionJoining, To: core.CompanionLeft, Why: "leave"},
	{From: core.CompanionReviving, To: core.CompanionVerifying, Why: "put answered: wait"},
	{From: core.CompanionReviving, To: core.CompanionDoubtful, Why: "put unknown: read it back"},
	{From: core.CompanionReviving, To: core.CompanionLeaving, Why: "leave, a put in flight"},
	{From: core.CompanionDoubtful, To: core.CompanionVerifying, Why: "the put is there: wait"},
	{From: core.CompanionDoubtful, To: core.CompanionJoining, Why: "it is not, or cannot be read: join again"},
	{From: core.CompanionDoubtful, To: core.CompanionLost, Why: "another's, or released"},
	{From: core.CompanionDoubtful, To: core.CompanionLeft, Why: "leave"},
	{From: core.CompanionVerifying, To: core.CompanionJoined, Why: "ours"},
	{From: core.CompanionVerifying, To: core.CompanionJoining, Why: "ours but expired again, or unreadable: join again"},
	{From: core.CompanionVerifying, To: core.CompanionLost, Why: "released; not ours"},
	{From: core.CompanionVerifying, To: core.CompanionLeft, Why: "leave"},
	{From: core.CompanionJoined, To: core.CompanionJoining, Why: "deadline: contact lost, join again"},
	{From: core.CompanionJoined, To: core.CompanionLost, Why: "taken, released"},
	{From: core.CompanionJoined, To: core.CompanionLeaving, Why: "leave, a put in flight"},
	{From: core.CompanionJoined, To: core.CompanionLeft, Why: "leave"},
	{From: core.CompanionLeaving, To: core.CompanionLeft, Why: "the put is answered"},
}
