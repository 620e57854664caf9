package base

// Bug is a deliberate mistake: a rule left out. Each shows what the rule is for,
// and that the explorer finds it (tests/explore). No build makes one unless it
// has the tag mopslock_bugs; their names are in bugs_on.go.
type Bug uint8

// The bugs of the protocol's table, and ours behind them.
const (
	BugNone Bug = iota
	BugJoinByBeat
	BugJudgeAtAnswer
	BugSignsReadApart
	BugPutAloneRenews
	BugBrokenFreesNow
	BugReleasedFreesNow
	BugSessionWithoutCalls
	BugJoinDropsSession
	BugSessionLivesOn
	BugForgetUnknownCreate
	BugReleaseLeftToExpire
	BugSameNonceRetry
	BugOldCalibration
	BugSlopShort
	BugStampsAsNonces
	BugSteppingStoreClock
	BugGCWithoutBasis
	BugPollAsBasis
	BugTenureReused
	BugSessionNotInForce

	BugDeadlineFromAnswer
	BugEpochReset
	BugUnknownIsNo
	BugUnknownIsYes
	BugLateRenewal
	BugSameBootNewest
	BugSameBootFreed
	BugEndedBeatsMissed
	BugBreakVerdictKept
	BugExistsBesidePut
	BugBootClockUnchecked

	BugNoSecondLook
	BugResultOverwrites
	BugLoserDelivers

	BugOverallocate
	BugPermitFreedEarly
	BugSettleAtVersion
	BugIDReused
	BugReleaseLeft
	BugPermitOutlivesSession

	BugHurriedClaim
	BugHintRenews
)
