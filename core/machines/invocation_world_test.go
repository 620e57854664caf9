package machines

import (
	"slices"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/invocation"
)

// What a world needs for invocations: the work's own bytes, and a machine inside
// another one.

// workOf is what the work of an actor comes to.
func workOf(a *actor) []byte { return []byte("by " + a.name) }

// innerOf is the lease or the companion of an invocation, or the machine itself.
func innerOf(m core.Machine) core.Machine {
	if v, ok := m.(*invocation.Invocation); ok {
		return v.Inner
	}
	return m
}

// invocationInternals is internals of both halves.
func invocationInternals(v *invocation.Invocation) (timers int64, flying bool) {
	timers, flying = min(v.Timers.Earliest(), v.InnerWake), v.Flight.ID != 0
	if v.Inner != nil {
		_, also := internals(v.Inner)
		flying = flying || also || standsOnSession(v.Inner)
	}
	return timers, flying || v.WorkState() == core.InvocationLaunched || v.WorkState() == core.InvocationReleasing
}

// invocationConfig: machine NAME invocation|remote [memo] [without-lease] [creates].
func (s *script) invocationConfig(cfg *core.Config) {
	if !s.data.HasArg("invocation") {
		return
	}
	cfg.Machine, cfg.Role = core.MachineInvocation, core.RoleOwner
	if s.data.HasArg("remote") {
		cfg.Role = core.RoleRemote
	}
	cfg.MemoFailures, cfg.WithoutLease = s.data.HasArg("memo"), s.data.HasArg("without-lease")
	cfg.Creates = s.data.HasArg("creates")
}

// ended NAME yes|no [result]: the work that it launched has ended.
func (s *script) endedCommand(t *testing.T) string {
	outcome, ok := byName[core.Outcome](s.data.CmdArgs[1].Key)
	if !ok {
		t.Fatalf("%s: yes or no", s.data.Pos)
	}
	return s.stepped(s.subject(), core.Event{Kind: core.EventEnded, Outcome: outcome, Result: s.data.HasArg("result")})
}

// isResult reports whether a request stores the result of the work.
func isResult(verb core.ActionKind) bool {
	return verb == core.ActionCreateResult || verb == core.ActionPutResult
}

// laneIsSorted: an invocation's own requests have odd numbers, those of the lease even ones.
func laneIsSorted(a *actor, id core.RequestID) bool {
	_, twice := a.machine.(*invocation.Invocation)
	return !slices.ContainsFunc(a.flying, func(r *request) bool {
		return r.Request >= id && (!twice || r.Request%2 == id%2)
	})
}
