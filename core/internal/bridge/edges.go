package bridge

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// LeaseEdges is every move that a Lease can make. It is never written.
var LeaseEdges = [...]base.Edge[core.LeaseState]{
	{From: core.LeaseIdle, To: core.LeaseObserving, Why: "acquire: is lock.json free"},
	{From: core.LeaseIdle, To: core.LeaseReleasing, Why: "release of a printed lease"},
	{From: core.LeaseObserving, To: core.LeaseWaiting, Why: "lock.json is another's"},
	{From: core.LeaseObserving, To: core.LeaseClaiming, Why: "it is free: the register"},
	{From: core.LeaseObserving, To: core.LeaseRefused, Why: "held by another; limit; cancelled; store unreachable or unusable"},
	{From: core.LeaseWaiting, To: core.LeaseObserving, Why: "back-off: is lock.json free"},
	{From: core.LeaseWaiting, To: core.LeaseClaiming, Why: "lock.json has become free: the register"},
	{From: core.LeaseWaiting, To: core.LeaseRefused, Why: "limit; cancelled; store unreachable"},
	{From: core.LeaseClaiming, To: core.LeaseVerifying, Why: "the version is ours: lock.json, tried once"},
	{From: core.LeaseClaiming, To: core.LeaseReleasing, Why: "cancelled"},
	{From: core.LeaseClaiming, To: core.LeaseRefused, Why: "held by another; limit; store unreachable or unusable"},
	{From: core.LeaseVerifying, To: core.LeaseHeld, Why: "lock.json is ours, too"},
	{From: core.LeaseVerifying, To: core.LeaseReleasing, Why: "lock.json is another's, or the version is lost; cancelled"},
	{From: core.LeaseHeld, To: core.LeaseReleasing, Why: "release; one of both is lost: the other is given back"},
	{From: core.LeaseHeld, To: core.LeaseLost, Why: "the version is lost"},
	{From: core.LeaseReleasing, To: core.LeaseWaiting, Why: "a failed attempt is cleaned up, and the caller waits"},
	{From: core.LeaseReleasing, To: core.LeaseReleased, Why: "both are given back"},
	{From: core.LeaseReleasing, To: core.LeaseRefused, Why: "a failed attempt is cleaned up, and the caller does not wait"},
	{From: core.LeaseReleasing, To: core.LeaseLost, Why: "lost, and what was left is given back or given up"},
}

// CompanionEdges is every move that a Companion can make. It is never written.
var CompanionEdges = [...]base.Edge[core.CompanionState]{
	{From: core.CompanionIdle, To: core.CompanionJoining, Why: "accompany: the register, and then lock.json"},
	{From: core.CompanionJoining, To: core.CompanionJoined, Why: "both are joined"},
	{From: core.CompanionJoining, To: core.CompanionLeaving, Why: "leave; one of both is lost, or cannot be joined: the other is left"},
	{From: core.CompanionJoined, To: core.CompanionJoining, Why: "contact lost: join again"},
	{From: core.CompanionJoined, To: core.CompanionLeaving, Why: "leave; one of both is lost: the other is left"},
	{From: core.CompanionLeaving, To: core.CompanionLeft, Why: "both are left"},
	{From: core.CompanionLeaving, To: core.CompanionRefused, Why: "the same, after it could not be maintained"},
	{From: core.CompanionLeaving, To: core.CompanionLost, Why: "the same, after a loss"},
}
