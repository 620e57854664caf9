package core

// strictRefusedConfigs is every config of strict that makes no machine.
func strictRefusedConfigs() []byte {
	v := newVector("A config of strict that makes no machine is refused with all that is wrong with it.", "strict_validate_test.go")
	for _, rule := range strictRules() {
		cfg := strictConfig(rule.change)
		if rule.want != "" || len(cfg.Label) == 0 && len(cfg.Why) == 0 {
			v.made(AppendConfig(nil, &cfg))
		}
	}
	return v.end()
}

// strictRefusedSteps is every event that strict's machines cannot be told.
func strictRefusedSteps() []byte {
	v := newVector("A step that breaks the contract is refused by strict's machines, too, and changes nothing.", "strict_vector_test.go")
	for _, start := range strictStarts() {
		cfg := start.cfg
		n := v.made(AppendConfig(nil, &cfg))
		step := func(mono int64, ev Event) { v.stepped(n, AppendInput(nil, Instant{mono, worldStart}, &ev)) }
		everything := func(mono int64) {
			step(mono, Event{Kind: EventLimit, Permit: 1})
			step(mono, Event{Kind: EventDown, Holder: []byte("h")})
			for kind := EventAcquire; kind <= EventEnded; kind++ {
				if kind != EventAnswer && kind != EventAcquire && kind != EventAccompany && kind != EventBegin && kind != EventRelease {
					step(mono, Event{Kind: kind, Epoch: 9})
				}
			}
		}
		everything(5)
		step(5, Event{Kind: EventAcquire, Wait: -2})
		step(5, Event{Kind: EventAnswer, Request: 1, Outcome: OutcomeYes})
		for _, kind := range []EventKind{EventAcquire, EventAccompany, EventBegin, EventRelease} {
			step(6, Event{Kind: kind})
		}
		step(5, Event{Kind: EventWoke})
		step(6, Event{Kind: EventAnswer, Request: 1, Outcome: OutcomeNo})
		step(6, Event{Kind: EventAnswer, Request: 2, Outcome: OutcomeYes})
		everything(7)
	}
	return v.end()
}
