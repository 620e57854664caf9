package machines

import "github.com/mopslock/mopslock/core"

// strictRefusedConfigs is every config of strict that makes no machine.
func strictRefusedConfigs() []byte {
	v := newVector("A config of strict that makes no machine is refused with all that is wrong with it.", "strict_validate_test.go")
	for _, rule := range strictRules() {
		cfg := strictConfig(rule.change)
		if rule.want != "" || len(cfg.Label) == 0 && len(cfg.Why) == 0 {
			v.made(core.AppendConfig(nil, &cfg))
		}
	}
	return v.end()
}

// strictRefusedSteps is every event that strict's machines cannot be told.
func strictRefusedSteps() []byte {
	v := newVector("A step that breaks the contract is refused by strict's machines, too, and changes nothing.", "strict_vector_test.go")
	for _, start := range strictStarts() {
		cfg := start.cfg
		n := v.made(core.AppendConfig(nil, &cfg))
		step := func(mono int64, ev core.Event) {
			v.stepped(n, core.AppendInput(nil, core.Instant{Mono: mono, Wall: worldStart}, &ev))
		}
		everything := func(mono int64) {
			step(mono, core.Event{Kind: core.EventLimit, Permit: 1})
			step(mono, core.Event{Kind: core.EventDown, Holder: []byte("h")})
			for kind := core.EventAcquire; kind <= core.EventEnded; kind++ {
				if kind != core.EventAnswer && kind != core.EventAcquire && kind != core.EventAccompany && kind != core.EventBegin && kind != core.EventRelease {
					step(mono, core.Event{Kind: kind, Epoch: 9})
				}
			}
		}
		everything(5)
		step(5, core.Event{Kind: core.EventAcquire, Wait: -2})
		step(5, core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeYes})
		for _, kind := range []core.EventKind{core.EventAcquire, core.EventAccompany, core.EventBegin, core.EventRelease} {
			step(6, core.Event{Kind: kind})
		}
		step(5, core.Event{Kind: core.EventWoke})
		step(6, core.Event{Kind: core.EventAnswer, Request: 1, Outcome: core.OutcomeNo})
		step(6, core.Event{Kind: core.EventAnswer, Request: 2, Outcome: core.OutcomeYes})
		everything(7)
	}
	return v.end()
}
