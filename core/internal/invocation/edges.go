package invocation

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// InvocationEdges is every move that an Invocation can make. It is never written.
var InvocationEdges = [...]base.Edge[core.InvocationState]{
	{From: core.InvocationIdle, To: core.InvocationChecking, Why: "begin: exists"},
	{From: core.InvocationChecking, To: core.InvocationReleasing, Why: "the result is there: found; a remote that nothing can be kept alive for; a remote out of contact that is cancelled"},
	{From: core.InvocationChecking, To: core.InvocationAcquiring, Why: "there is none, and we want one: the lease, tried once"},
	{From: core.InvocationChecking, To: core.InvocationJoining, Why: "there is none, and we are a remote: accompany"},
	{From: core.InvocationChecking, To: core.InvocationLaunched, Why: "a remote without an answer, or that was given no lease, and is to work without one"},
	{From: core.InvocationChecking, To: core.InvocationRefused, Why: "cancelled; limit; store unreachable or unusable"},
	{From: core.InvocationAcquiring, To: core.InvocationConfirming, Why: "held: exists"},
	{From: core.InvocationAcquiring, To: core.InvocationWaiting, Why: "held by another, raced, or the store did not answer"},
	{From: core.InvocationAcquiring, To: core.InvocationReleasing, Why: "cancelled"},
	{From: core.InvocationAcquiring, To: core.InvocationRefused, Why: "patience is over; store unusable; not for us to judge"},
	{From: core.InvocationWaiting, To: core.InvocationChecking, Why: "back-off, changed, or it can be dead: exists"},
	{From: core.InvocationWaiting, To: core.InvocationRefused, Why: "cancelled; limit"},
	{From: core.InvocationJoining, To: core.InvocationConfirming, Why: "joined, or it cannot be and is to work without a lease: exists"},
	{From: core.InvocationJoining, To: core.InvocationReleasing, Why: "lost, or cannot be maintained: nothing is run; cancelled"},
	{From: core.InvocationConfirming, To: core.InvocationLaunched, Why: "there is no result: launch"},
	{From: core.InvocationConfirming, To: core.InvocationReleasing, Why: "the result is there: found; a remote's lease is lost: nothing is run; store unusable; cancelled"},
	{From: core.InvocationConfirming, To: core.InvocationChecking, Why: "lost, or a remote lost contact, before the work began"},
	{From: core.InvocationLaunched, To: core.InvocationDelivering, Why: "ended with a result to be stored"},
	{From: core.InvocationLaunched, To: core.InvocationSettling, Why: "the launcher ended: exists"},
	{From: core.InvocationLaunched, To: core.InvocationReleasing, Why: "a remote's work failed, or its lease is another's: absent; cancelled"},
	{From: core.InvocationDelivering, To: core.InvocationReleasing, Why: "stored, or another's was there: found; the store does not take it: absent; cancelled"},
	{From: core.InvocationDelivering, To: core.InvocationChecking, Why: "the lease is another's: nothing more is written"},
	{From: core.InvocationSettling, To: core.InvocationReleasing, Why: "the result is there: found; it failed, or nobody goes on with it: absent; cancelled"},
	{From: core.InvocationSettling, To: core.InvocationAwaiting, Why: "there is none yet, and a companion may be at it"},
	{From: core.InvocationSettling, To: core.InvocationChecking, Why: "the lease was lost: whose is it now"},
	{From: core.InvocationAwaiting, To: core.InvocationSettling, Why: "back-off, changed, or the lease was lost: exists"},
	{From: core.InvocationAwaiting, To: core.InvocationReleasing, Why: "cancelled"},
	{From: core.InvocationReleasing, To: core.InvocationDone, Why: "the lease is given back, left or lost"},
	{From: core.InvocationReleasing, To: core.InvocationRefused, Why: "the same, after a cancel, or where the store cannot be used"},
}
