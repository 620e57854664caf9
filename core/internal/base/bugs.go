package base

// Bug is a Mutation as the rooms strict and lastwriter still name it: a condition among
// the product's. It goes when they have rules.go.
type Bug string

const (
	BugJoinByBeat          Bug = "join-by-beat"
	BugPutAloneRenews      Bug = "put-alone-renews"
	BugSessionWithoutCalls Bug = "session-without-calls"
	BugJoinDropsSession    Bug = "join-drops-session"
	BugSessionLivesOn      Bug = "session-lives-on"
	BugForgetUnknownCreate Bug = "forget-unknown-create"
	BugReleaseLeftToExpire Bug = "release-left-to-expire"
	BugSameNonceRetry      Bug = "same-nonce-retry"
	BugGCWithoutBasis      Bug = "gc-without-basis"
	BugPollAsBasis         Bug = "poll-as-basis"
	BugSessionNotInForce   Bug = "session-not-in-force"
	BugDeadlineFromAnswer  Bug = "deadline-from-answer"
	BugEpochReset          Bug = "epoch-reset"
	BugUnknownIsNo         Bug = "unknown-is-no"
	BugUnknownIsYes        Bug = "unknown-is-yes"
	BugLateRenewal         Bug = "late-renewal"
	BugBreakVerdictKept    Bug = "break-verdict-kept"
	BugExistsBesidePut     Bug = "exists-beside-put"
	BugHurriedClaim        Bug = "hurried-claim"
	BugHintRenews          Bug = "hint-renews"
)

// Deliberate is Mutant as package strict still names it.
type Deliberate = Mutant
