package base

// Bug is a Mutation as rooms without rules.go still name it: a condition among
// the product's. It goes when all have rules.go.
type Bug string

const (
	BugJoinByBeat            Bug = "join-by-beat"
	BugJudgeAtAnswer         Bug = "judge-at-answer"
	BugSignsReadApart        Bug = "signs-read-apart"
	BugPutAloneRenews        Bug = "put-alone-renews"
	BugBrokenFreesNow        Bug = "broken-frees-now"
	BugReleasedFreesNow      Bug = "released-frees-now"
	BugSessionWithoutCalls   Bug = "session-without-calls"
	BugJoinDropsSession      Bug = "join-drops-session"
	BugSessionLivesOn        Bug = "session-lives-on"
	BugForgetUnknownCreate   Bug = "forget-unknown-create"
	BugReleaseLeftToExpire   Bug = "release-left-to-expire"
	BugSameNonceRetry        Bug = "same-nonce-retry"
	BugOldCalibration        Bug = "old-calibration"
	BugSlopShort             Bug = "slop-short"
	BugStampsAsNonces        Bug = "stamps-as-nonces"
	BugSteppingStoreClock    Bug = "stepping-store-clock"
	BugGCWithoutBasis        Bug = "gc-without-basis"
	BugPollAsBasis           Bug = "poll-as-basis"
	BugTenureReused          Bug = "tenure-reused"
	BugSessionNotInForce     Bug = "session-not-in-force"
	BugDeadlineFromAnswer    Bug = "deadline-from-answer"
	BugEpochReset            Bug = "epoch-reset"
	BugUnknownIsNo           Bug = "unknown-is-no"
	BugUnknownIsYes          Bug = "unknown-is-yes"
	BugLateRenewal           Bug = "late-renewal"
	BugSameBootNewest        Bug = "same-boot-newest"
	BugSameBootFreed         Bug = "same-boot-freed"
	BugEndedBeatsMissed      Bug = "ended-beats-missed"
	BugBreakVerdictKept      Bug = "break-verdict-kept"
	BugExistsBesidePut       Bug = "exists-beside-put"
	BugBootClockUnchecked    Bug = "boot-clock-unchecked"
	BugNoSecondLook          Bug = "no-second-look"
	BugResultOverwrites      Bug = "result-overwrites"
	BugLoserDelivers         Bug = "loser-delivers"
	BugOverallocate          Bug = "overallocate"
	BugPermitFreedEarly      Bug = "permit-freed-early"
	BugSettleAtVersion       Bug = "settle-at-version"
	BugIDReused              Bug = "id-reused"
	BugReleaseLeft           Bug = "release-left"
	BugPermitOutlivesSession Bug = "permit-outlives-session"
	BugHurriedClaim          Bug = "hurried-claim"
	BugHintRenews            Bug = "hint-renews"
)

// Deliberate is Mutant as package strict still names it.
type Deliberate = Mutant
