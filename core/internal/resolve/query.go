// Package resolve finds out by which protocol a name is kept, and what the store can do.
package resolve

import "github.com/mopslock/mopslock/core"

// Query is what is known of how a name is kept. Next says what is to be done to know more.
//
// lastwriter is itself, without a request. Where the store honours create-if-absent, auto is bridge if
// the name has a lock.json, since an old client would not see a strict lease, and otherwise strict.
// Elsewhere it is lastwriter. The first of two
// results wins by the store's own word, if that honours create-if-absent: so work by
// lastwriter has the store tried as well.
type Query struct {
	Use      Use
	Protocol core.Protocol // 0 is auto, until it is known
	// Memoizes: failures are kept too, as a result is.
	Memoizes bool
	// Leased: the remote that does the work keeps a lease alive, and does not without one.
	Leased bool

	LockFile bool        // the name has a lock.json
	Reason   core.Reason // of Refuse
	Class    core.Class

	asked    Step // the last question
	memo     bool // it is no memo of mops
	recalled bool
	recent   bool // this process has looked for a lock.json a while ago
	record   bool // or the name was asked for one
	untried  bool // what the store can do does not matter any more
	refused  bool // it refuses to be written
	result   bool // and has no result
}

// Use is what a name is wanted for.
type Use uint8

// The uses.
const (
	Join  Use = iota // a lease that exists says how it is kept
	Lease            // or a result of work
	Work
	Remote
	Semaphore // which no old client keeps
)

// Step is what is to be done next.
type Step uint8

// The steps. All but Begin and Refuse are followed by Next.
const (
	Begin      Step = iota // the name is kept by Protocol
	Refuse                 // for Reason and Class
	Recall                 // what this process knows of the name: Recalled
	AskMemo                // whether it is a memo of mops, within which the result would lie: Saw
	AskRecord              // whether it has a lock.json: Saw
	FallBack               // tell that auto is lastwriter, since the store has no create-if-absent
	TryStore               // find out what the store can do: it is known then, or NotTried
	TryLater               // and once more after a while: nothing
	AskResult              // whether there is a result: Saw
	AskFailure             // or a failure: Saw
)

// Next says what is to be done, by what is known of the store.
func (q *Query) Next(store Verdict) Step {
	q.asked = q.next(store)
	return q.asked
}

func (q *Query) next(store Verdict) Step {
	switch {
	case q.Reason != core.ReasonNone:
		return Refuse
	case q.Use == Join || q.untried:
		return Begin
	case q.Use == Remote:
		return q.tried(store)
	case q.Use == Work && !q.memo:
		return AskMemo
	case q.refused && !q.result:
		return AskResult
	case q.refused:
		return AskFailure
	case !q.recalled:
		return Recall
	case q.Protocol == core.ProtocolLastWriter:
		return q.tried(store)
	case q.Protocol == core.ProtocolBridge && store == Honoured:
		return Begin
	case q.Protocol == core.ProtocolBridge && store == Ignored:
		q.Reason = core.ReasonNoCreate
		return Refuse
	case q.Protocol == core.ProtocolBridge:
		return TryStore
	case q.recent:
		q.Protocol = core.ProtocolStrict
		return Begin
	case q.Use != Semaphore && store != Ignored && !q.record: // otherwise it would change nothing
		return AskRecord
	case store == Honoured && q.LockFile && q.Protocol == 0:
		q.Protocol = core.ProtocolBridge
		return Begin
	case store == Honoured:
		q.Protocol = core.ProtocolStrict
		return Begin
	case store == Unknown:
		return TryStore
	case q.Protocol == core.ProtocolStrict || q.Use == Semaphore:
		q.Reason = core.ReasonNoCreate
		return Refuse
	}
	q.Protocol = core.ProtocolLastWriter
	return FallBack
}

// tried begins lastwriter, for work once the store was tried.
func (q *Query) tried(store Verdict) Step {
	if store == Unknown && (q.Use == Work || q.Use == Remote) && q.Protocol == core.ProtocolLastWriter {
		return TryStore
	}
	return Begin
}

// Recalled says whether this process looked for a lock.json a while ago, and found none. It returns whether that counts.
func (q *Query) Recalled(recent bool) bool {
	q.recalled, q.recent = true, recent && q.Protocol != core.ProtocolLastWriter
	return q.recent
}

// HasLooked reports whether it was found out that the name has no lock.json.
func (q *Query) HasLooked() bool { return q.record && !q.LockFile }

// Saw says whether what was asked for is there.
func (q *Query) Saw(there bool) {
	switch {
	case q.asked == AskMemo && there:
		q.Reason = core.ReasonKind
	case q.asked == AskMemo:
		q.memo = true
	case q.asked == AskRecord:
		q.record, q.LockFile = true, there
	case there: // a result needs no lease
		q.Protocol, q.untried = core.ProtocolStrict, true
	case q.asked == AskResult && q.Memoizes:
		q.result = true
	default:
		q.Reason = core.ReasonUnusable
	}
}

// Unanswered says that the question was not answered, and why.
func (q *Query) Unanswered(reason core.Reason, class core.Class) {
	if q.refused { // the store's refusal stands
		q.Reason = core.ReasonUnusable
		return
	}
	if q.Reason, q.Class = reason, class; class == core.ClassNone {
		q.Class = core.ClassUnreachable
	}
}

// NotTried says that it could not be found out what the store can do. over: the caller's wait is.
func (q *Query) NotTried(reason core.Reason, class core.Class, over bool) Step {
	switch {
	case reason == core.ReasonLimit && !over: // the store has answered before, and a waiter carries on
	case reason == core.ReasonUnusable && (q.Use == Remote || q.Use == Work && q.Protocol == core.ProtocolLastWriter):
		q.untried = true // what refuses to be tried is taken for a store that does not: a put, after a look
	case q.Use == Remote && !over:
		return TryLater
	case q.Use == Remote && q.Leased:
		q.Reason, q.Class = core.ReasonUnreadable, class
	case q.Use == Remote:
		q.untried = true
	case q.Use == Work && reason == core.ReasonUnusable && (class == core.ClassUnauthorized || class == core.ClassReadOnly):
		// A store that may be read refuses to be written. A result that is there needs no
		// lease. Without one the refusal stands: no protocol may be chosen unseen.
		q.refused, q.Class = true, class
	default:
		q.Reason, q.Class = reason, class
	}
	return TryStore
}
