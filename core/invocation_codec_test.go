package core

// invocationMessages are those that came with invocations.
func invocationMessages(now Instant, add func(name string, message []byte)) {
	for _, ev := range []Event{
		{Kind: EventBegin, Wait: Forever},
		{Kind: EventEnded, Outcome: OutcomeNo},
		{Kind: EventEnded, Outcome: OutcomeYes, Result: true},
	} {
		add("input "+ev.Kind.String(), AppendInput(nil, now, &ev))
	}
	for _, a := range []Action{
		{Kind: ActionCreateResult, Request: 5, Key: "n/result", Limit: ResultLimit, Type: ResultType},
		{Kind: ActionPutResult, Request: 7, Key: "n/result", Limit: ResultLimit, Type: ResultType},
		{Kind: ActionLaunch},
		{Kind: ActionFound, Key: FailurePrefix + "n/result"},
		{Kind: ActionAbsent},
		{Kind: ActionAbsent, Reason: ReasonUnreachable, Class: ClassThrottled},
	} {
		add("actions "+a.Kind.String(), appendActions(nil, []Action{a}))
	}
	add("answer", appendAnswer(&Answer{State: InvocationLaunched.String(), Actions: []Action{{Kind: ActionLaunch}, {Kind: ActionWake, At: 5}}}))
	add("config invocation", AppendConfig(nil, &Config{
		Machine: MachineInvocation, Protocol: ProtocolLastWriter, Name: "n", Role: RoleRemote, Holder: "h",
		MemoFailures: true, WithoutLease: true, Creates: true, Seed: [16]byte{1},
	}))
}
