package core

import (
	"slices"
	"testing"
)

// What a world needs for invocations: the work's own bytes, and a machine inside
// another one.

// workOf is what the work of an actor comes to.
func workOf(a *actor) []byte { return []byte("by " + a.name) }

// innerOf is the lease or the companion of an invocation, or the machine itself.
func innerOf(m Machine) Machine {
	if v, ok := m.(*Invocation); ok {
		return v.inner
	}
	return m
}

// invocationInternals is internals of both halves.
func invocationInternals(v *Invocation) (timers int64, flying bool) {
	timers, flying = min(v.timers.earliest(), v.innerWake), v.flight.id != 0
	if v.inner != nil {
		_, also := internals(v.inner)
		flying = flying || also || standsOnSession(v.inner)
	}
	return timers, flying || v.State() == InvocationLaunched || v.State() == InvocationReleasing
}

// invocationConfig: machine NAME invocation|remote [memo] [without-lease] [creates].
func (s *script) invocationConfig(cfg *Config) {
	if !s.data.HasArg("invocation") {
		return
	}
	cfg.Machine, cfg.Role = MachineInvocation, RoleOwner
	if s.data.HasArg("remote") {
		cfg.Role = RoleRemote
	}
	cfg.MemoFailures, cfg.WithoutLease = s.data.HasArg("memo"), s.data.HasArg("without-lease")
	cfg.Creates = s.data.HasArg("creates")
}

// ended NAME yes|no [result]: the work that it launched has ended.
func (s *script) endedCommand(t *testing.T) string {
	outcome, ok := byName[Outcome](s.data.CmdArgs[1].Key)
	if !ok {
		t.Fatalf("%s: yes or no", s.data.Pos)
	}
	return s.stepped(s.subject(), Event{Kind: EventEnded, Outcome: outcome, Result: s.data.HasArg("result")})
}

// isResult reports that a request carries what the work came to.
func isResult(verb ActionKind) bool { return verb == ActionCreateResult || verb == ActionPutResult }

// laneIsSorted: an invocation's own requests have odd numbers, those of the lease even ones.
func laneIsSorted(a *actor, id RequestID) bool {
	_, twice := a.machine.(*Invocation)
	return !slices.ContainsFunc(a.flying, func(r *request) bool {
		return r.Request >= id && (!twice || r.Request%2 == id%2)
	})
}
