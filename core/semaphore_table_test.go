package core

// What the table and the fuzz test of strict's machines need for a semaphore.

// labelSemaphore is what changes what an event means to a semaphore.
func labelSemaphore(out *line, m *Semaphore) {
	labelRegister(out, &m.register)
	phases := map[askPhase]bool{}
	full := false
	for i := range m.asks {
		a := &m.asks[i]
		phases[a.phase] = true
		full = full || a.phase == askWanted && a.blocked
	}
	out.flag("wanted", phases[askWanted])
	out.flag("full", full)
	out.flag("held", phases[askHeld])
	out.flag("leaving", phases[askLeaving])
	out.flag("open", m.open != 0)
	out.flag("in-force", m.inForce())
	out.flag("closing", m.closing)
}

// permitSayings is what can be said to a semaphore of permits.
func permitSayings(m *Semaphore) []saying {
	next := uint64(1)
	for i := range m.asks {
		next = max(next, m.asks[i].number+1)
	}
	now := func(*machine) int64 { return 0 }
	say := func(name string, ev Event) saying {
		return saying{name: name, later: now, event: func(m Machine) Event { return withSession(m, ev) }}
	}
	all := []saying{say("release the last", Event{Kind: EventRelease, Permit: next - 1}), say("cancel the last", Event{Kind: EventCancel, Permit: next - 1})}
	if next > 2 {
		return all
	}
	return append(all,
		say("acquire one", Event{Kind: EventAcquire, Permit: next, Capacity: 2, Width: 1}),
		say("acquire two and wait", Event{Kind: EventAcquire, Permit: next, Capacity: 2, Width: 1, Weight: 2, Wait: Forever}),
		say("acquire too much", Event{Kind: EventAcquire, Permit: next, Capacity: 2, Width: 1, Weight: 3}),
		say("limit it", Event{Kind: EventLimit, Permit: next, StoreLimit: 1}),
	)
}

// permitVersions is what can stand at the version that a semaphore has asked for.
func permitVersions(m *Semaphore) map[string][]byte {
	n := askedVersion(m)
	full := value{capacity: 1, width: 2, permits: []permit{{id: "p", session: "other", weight: 2}}}
	ours := value{capacity: 1, width: 2, limit: 7}
	for i := range m.asks {
		ours.permits = append(ours.permits, permit{id: m.asks[i].id, session: "sid", weight: 1})
	}
	return map[string][]byte{
		"semaphore, empty":      testValue(m, n, &value{capacity: 1, width: 2}),
		"semaphore, full":       testValue(m, n, &full),
		"semaphore, ours in it": testValue(m, n, &ours),
	}
}

// testValue is the record of a version of a semaphore.
func testValue(m Machine, n Epoch, of *value) []byte {
	writer := *baseOf(m)
	v := ownVersion{
		n: n, origin: n, state: VersionValue, tenure: "x", owner: "x", nonce: nonce{3, uint64(n)},
		ttl: tableTTL, margin: tableTTL / 10,
	}
	return appendValue(nil, &writer, &v, of)
}
