//go:build mopslock_mutations

package base

// Mutation names a deliberate mistake: a rule left out. Each shows what the rule is for,
// and that tests find it. core/PROTOCOL.md names it beside its rule. Only builds with the tag
// mopslock_mutations have any: there rules_mutated.go of a room stands for its rules.go.
type Mutation string

// The mutations of the protocol's table, and ours behind them. SteppingStoreClock is a mistake
// of who configures a client, and TenureReused one of the client itself.
const (
	JoinByBeat          Mutation = "join-by-beat"
	JudgeAtAnswer       Mutation = "judge-at-answer"
	SignsReadApart      Mutation = "signs-read-apart"
	PutAloneRenews      Mutation = "put-alone-renews"
	BrokenFreesNow      Mutation = "broken-frees-now"
	ReleasedFreesNow    Mutation = "released-frees-now"
	SessionWithoutCalls Mutation = "session-without-calls"
	JoinDropsSession    Mutation = "join-drops-session"
	SessionLivesOn      Mutation = "session-lives-on"
	ForgetUnknownCreate Mutation = "forget-unknown-create"
	ReleaseLeftToExpire Mutation = "release-left-to-expire"
	SameNonceRetry      Mutation = "same-nonce-retry"
	OldCalibration      Mutation = "old-calibration"
	SlopShort           Mutation = "slop-short"
	StampsAsNonces      Mutation = "stamps-as-nonces"
	SteppingStoreClock  Mutation = "stepping-store-clock"
	GCWithoutBasis      Mutation = "gc-without-basis"
	PollAsBasis         Mutation = "poll-as-basis"
	CollectedYoung      Mutation = "collected-young"
	TenureReused        Mutation = "tenure-reused"
	SessionNotInForce   Mutation = "session-not-in-force"

	DeadlineFromAnswer Mutation = "deadline-from-answer"
	EpochReset         Mutation = "epoch-reset"
	UnknownIsNo        Mutation = "unknown-is-no"
	UnknownIsYes       Mutation = "unknown-is-yes"
	LateRenewal        Mutation = "late-renewal"
	SameBootNewest     Mutation = "same-boot-newest" // the boot's clock, by the newest version's beats alone
	SameBootFreed      Mutation = "same-boot-freed"  // the boot's clock, by a release or a break
	EndedBeatsMissed   Mutation = "ended-beats-missed"
	BreakVerdictKept   Mutation = "break-verdict-kept"
	ExistsBesidePut    Mutation = "exists-beside-put"
	BootClockUnchecked Mutation = "boot-clock-unchecked"

	NoSecondLook     Mutation = "no-second-look"
	ResultOverwrites Mutation = "result-overwrites"
	LoserDelivers    Mutation = "loser-delivers"

	Overallocate          Mutation = "overallocate"
	PermitFreedEarly      Mutation = "permit-freed-early"
	SettleAtVersion       Mutation = "settle-at-version"
	IDReused              Mutation = "id-reused"
	ReleaseLeft           Mutation = "release-left"
	PermitOutlivesSession Mutation = "permit-outlives-session"

	HurriedClaim Mutation = "hurried-claim" // lastwriter: a waiter waits no longer than another before it verifies
	HintRenews   Mutation = "hint-renews"   // nothing above us, asked beside a renewal, counts as one

	LeavingHandedOut  Mutation = "leaving-handed-out"  // a claim stands on a session that is being left
	EmptyListBelieved Mutation = "empty-list-believed" // version 1 is held by the word of the list that showed nothing
)

// The mutations of a bridge.
const (
	LookedBefore         Mutation = "looked-before"          // lock.json is claimed by a look that was made before the version
	WaitUnderVersion     Mutation = "wait-under-version"     // who waits for lock.json holds the version
	LaterDeadline        Mutation = "later-deadline"         // belief ends at the later of two deadlines
	EpochUnread          Mutation = "epoch-unread"           // a late write of a tenure that has ended takes the lease
	ReleasedClaimed      Mutation = "released-claimed"       // what another has released in our place is claimed, whose it was
	VersionReleasedFirst Mutation = "version-released-first" // and lock.json after it
	VersionLeft          Mutation = "version-left"           // after a loss by lock.json the version is not given back
)

// The mutations of a client.
const (
	BeliefPastCall         Mutation = "belief-past-call"         // the session's renewals move a claim that was called
	SessionToldLast        Mutation = "session-told-last"        // a session past its deadline is stepped after its claims
	LostCreateBelieved     Mutation = "lost-create-believed"     // a create without an answer says that one exists
	ThrottledRecordAwaited Mutation = "throttled-record-awaited" // the capability record is tried until it takes the create
	NobodyNudged           Mutation = "nobody-nudged"            // a release tells no waiter of this process
	FixLivesOn             Mutation = "fix-lives-on"             // a claim that was called stays fixed when it is held again
	SelfUnasked            Mutation = "self-unasked"             // no owner and no session asks for what it has made itself
	LockFileUnasked        Mutation = "lock-file-unasked"        // an owner that found no lock.json asks for none
)

// Caught is a mutation, and what catches it by its name: the explorer (tests/explore), the
// simulator (tests/simulate) or the rules of package client.
type Caught struct {
	Mutation Mutation
	By       string // one or more of them
}

// Mutations are all.
func Mutations() []Caught {
	return []Caught{
		{JoinByBeat, "explorer simulator"},
		{JudgeAtAnswer, "explorer"},
		{SignsReadApart, "explorer"},
		{PutAloneRenews, "explorer"},
		{BrokenFreesNow, "explorer simulator"},
		{ReleasedFreesNow, "explorer simulator"},
		{SessionWithoutCalls, "explorer simulator"},
		{JoinDropsSession, "explorer simulator"},
		{SessionLivesOn, "explorer"},
		{ForgetUnknownCreate, "explorer simulator"},
		{ReleaseLeftToExpire, "explorer simulator"},
		{SameNonceRetry, "explorer"},
		{OldCalibration, "explorer"},
		{SlopShort, "explorer"},
		{StampsAsNonces, "explorer"},
		{SteppingStoreClock, "explorer"},
		{GCWithoutBasis, "explorer"},
		{PollAsBasis, "explorer"},
		{CollectedYoung, "explorer"},
		{TenureReused, "explorer"},
		{SessionNotInForce, "explorer"},
		{DeadlineFromAnswer, "explorer simulator"},
		{EpochReset, "explorer simulator"},
		{UnknownIsNo, "explorer"},
		{UnknownIsYes, "explorer simulator"},
		{LateRenewal, "explorer simulator"},
		{SameBootNewest, "explorer"},
		{SameBootFreed, "explorer"},
		{EndedBeatsMissed, "explorer"},
		{BreakVerdictKept, "explorer"},
		{ExistsBesidePut, "explorer"},
		{BootClockUnchecked, "explorer"},
		{NoSecondLook, "explorer"},
		{ResultOverwrites, "explorer"},
		{LoserDelivers, "explorer"},
		{Overallocate, "explorer simulator"},
		{PermitFreedEarly, "explorer simulator"},
		{SettleAtVersion, "explorer simulator"},
		{IDReused, "explorer"},
		{ReleaseLeft, "explorer"},
		{PermitOutlivesSession, "explorer"},
		{HurriedClaim, "explorer"},
		{HintRenews, "explorer"},
		{LeavingHandedOut, "explorer simulator"},
		{EmptyListBelieved, "explorer"},
		{LookedBefore, "explorer"},
		{WaitUnderVersion, "explorer"},
		{LaterDeadline, "explorer"},
		{EpochUnread, "explorer"},
		{ReleasedClaimed, "explorer"},
		{VersionReleasedFirst, "explorer"},
		{VersionLeft, "explorer"},
		{BeliefPastCall, "explorer simulator rules"},
		{SessionToldLast, "explorer simulator rules"},
		{LostCreateBelieved, "explorer rules"},
		{ThrottledRecordAwaited, "explorer rules"},
		{NobodyNudged, "explorer rules"},
		{FixLivesOn, "explorer simulator rules"},
		{SelfUnasked, "rules"}, // where a prefix is emptied, epochs begin anew, for which the explorer has no invariant
		{LockFileUnasked, "explorer rules"},
	}
}

// Mutant is the one mutation of a machine, or none.
type Mutant struct{ Mutation Mutation }

// Has reports whether the machine has this mutation.
func (m Mutant) Has(which Mutation) bool { return m.Mutation == which }
