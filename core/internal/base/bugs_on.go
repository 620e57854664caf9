//go:build mopslock_bugs

package base

// Deliberate is the one mistake that a machine of a test build makes.
type Deliberate struct{ On Bug }

func (d Deliberate) Bug(b Bug) bool { return d.On == b }

// bugNames is never written.
var bugNames = [...]string{
	BugJoinByBeat:          "join-by-beat",
	BugJudgeAtAnswer:       "judge-at-answer",
	BugSignsReadApart:      "signs-read-apart",
	BugPutAloneRenews:      "put-alone-renews",
	BugBrokenFreesNow:      "broken-frees-now",
	BugReleasedFreesNow:    "released-frees-now",
	BugSessionWithoutCalls: "session-without-calls",
	BugJoinDropsSession:    "join-drops-session",
	BugSessionLivesOn:      "session-lives-on",
	BugForgetUnknownCreate: "forget-unknown-create",
	BugReleaseLeftToExpire: "release-left-to-expire",
	BugSameNonceRetry:      "same-nonce-retry",
	BugOldCalibration:      "old-calibration",
	BugSlopShort:           "slop-short",
	BugStampsAsNonces:      "stamps-as-nonces",
	BugSteppingStoreClock:  "stepping-store-clock",
	BugGCWithoutBasis:      "gc-without-basis",
	BugPollAsBasis:         "poll-as-basis",
	BugTenureReused:        "tenure-reused",
	BugSessionNotInForce:   "session-not-in-force",

	BugDeadlineFromAnswer: "deadline-from-answer",
	BugEpochReset:         "epoch-reset",
	BugUnknownIsNo:        "unknown-is-no",
	BugUnknownIsYes:       "unknown-is-yes",
	BugLateRenewal:        "late-renewal",
	BugSameBootNewest:     "same-boot-newest", // 1.12 as it was argued: the newest version's beats alone
	BugSameBootFreed:      "same-boot-freed",  // 1.12 as it was argued: a release or break by its own boottime
	BugEndedBeatsMissed:   "ended-beats-missed",
	BugBreakVerdictKept:   "break-verdict-kept",
	BugExistsBesidePut:    "exists-beside-put",
	BugBootClockUnchecked: "boot-clock-unchecked",

	BugNoSecondLook:     "no-second-look",
	BugResultOverwrites: "result-overwrites",
	BugLoserDelivers:    "loser-delivers",
	BugOverallocate:     "overallocate",

	BugPermitFreedEarly:      "permit-freed-early",
	BugSettleAtVersion:       "settle-at-version",
	BugIDReused:              "id-reused",
	BugReleaseLeft:           "release-left",
	BugPermitOutlivesSession: "permit-outlives-session",

	BugHurriedClaim: "hurried-claim", // lastwriter: who has waited verifies as soon as who has not
	BugHintRenews:   "hint-renews",   // nothing above us, asked beside a renewal, counts as one
}

// Bugs is every bug.
func Bugs() []Bug {
	var all []Bug
	for b := BugNone + 1; int(b) < len(bugNames); b++ {
		all = append(all, b)
	}
	return all
}

// String is the bug's name.
func (b Bug) String() string { return bugNames[b] }
