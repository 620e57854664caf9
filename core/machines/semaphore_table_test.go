package machines

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
	"github.com/mopslock/mopslock/core/internal/semaphore"
)

// What the table and the fuzz test of strict's machines need for a semaphore.

// labelSemaphore is what changes what an event means to a semaphore.
func labelSemaphore(out *line, m *semaphore.Semaphore) {
	labelRegister(out, &m.Register)
	phases := map[semaphore.AskPhase]bool{}
	full := false
	for i := range m.Asks {
		a := &m.Asks[i]
		phases[a.Phase] = true
		full = full || a.Phase == semaphore.AskWanted && a.Blocked
	}
	out.flag("wanted", phases[semaphore.AskWanted])
	out.flag("full", full)
	out.flag("held", phases[semaphore.AskHeld])
	out.flag("leaving", phases[semaphore.AskLeaving])
	out.flag("open", m.Open != 0)
	out.flag("in-force", m.InForce())
	out.flag("closing", m.Closing)
}

// permitSayings is what can be said to a semaphore of permits.
func permitSayings(m *semaphore.Semaphore) []saying {
	next := uint64(1)
	for i := range m.Asks {
		next = max(next, m.Asks[i].Number+1)
	}
	now := func(*base.Machine) int64 { return 0 }
	say := func(name string, ev core.Event) saying {
		return saying{name: name, later: now, event: func(m core.Machine) core.Event { return withSession(m, ev) }}
	}
	all := []saying{say("release the last", core.Event{Kind: core.EventRelease, Permit: next - 1}), say("cancel the last", core.Event{Kind: core.EventCancel, Permit: next - 1})}
	if next > 2 {
		return all
	}
	return append(all,
		say("acquire one", core.Event{Kind: core.EventAcquire, Permit: next, Capacity: 2, Width: 1}),
		say("acquire two and wait", core.Event{Kind: core.EventAcquire, Permit: next, Capacity: 2, Width: 1, Weight: 2, Wait: core.Forever}),
		say("acquire too much", core.Event{Kind: core.EventAcquire, Permit: next, Capacity: 2, Width: 1, Weight: 3}),
		say("limit it", core.Event{Kind: core.EventLimit, Permit: next, StoreLimit: 1}),
	)
}

// permitVersions is what can stand at the version that a semaphore has asked for.
func permitVersions(m *semaphore.Semaphore) map[string][]byte {
	n := askedVersion(m)
	full := register.Value{Capacity: 1, Width: 2, Permits: []register.PermitEntry{{ID: "p", Session: "other", Weight: 2}}}
	ours := register.Value{Capacity: 1, Width: 2, Limit: 7}
	for i := range m.Asks {
		ours.Permits = append(ours.Permits, register.PermitEntry{ID: m.Asks[i].ID, Session: "sid", Weight: 1})
	}
	return map[string][]byte{
		"semaphore, empty":      testValue(m, n, &register.Value{Capacity: 1, Width: 2}),
		"semaphore, full":       testValue(m, n, &full),
		"semaphore, ours in it": testValue(m, n, &ours),
	}
}

// testValue is the record of a version of a semaphore.
func testValue(m core.Machine, n core.Epoch, of *register.Value) []byte {
	writer := *baseOf(m)
	v := register.OwnVersion{
		N: n, Origin: n, State: core.VersionValue, Tenure: "x", Owner: "x", Nonce: register.Nonce{A: 3, B: uint64(n)},
		TTL: tableTTL, Margin: tableTTL / 10,
	}
	return register.AppendValue(nil, &writer, &v, of)
}
