package check

import (
	"strings"

	"github.com/mopslock/mopslock/core"
)

// Guard watches one machine: what it said, and what it sends after that. Its
// zero value is ready, and a copy is independent.
type Guard struct {
	// Own, if set, says whether a key is the machine's own to put or delete;
	// without it no key is checked.
	Own func(verb core.ActionKind, key string) bool
	end core.ActionKind // lost, refused, left or released, once said
}

// Ended reports whether the machine said that its lease is over.
func (g *Guard) Ended() bool { return g.end != 0 }

// End is the notice with which it ended, or 0.
func (g *Guard) End() core.ActionKind { return g.end }

// Changes reports whether a request changes the store.
func Changes(verb core.ActionKind) bool {
	switch verb {
	case core.ActionPut, core.ActionCreate, core.ActionDelete, core.ActionCreateResult, core.ActionPutResult:
		return true
	}
	return false
}

// Watch looks at the actions of one Step, in their order.
func (g *Guard) Watch(m core.Stepper, actions []core.Action) *Violation {
	wake := false
	for i := range actions {
		a := &actions[i]
		if v := g.action(a); v != nil {
			return v
		}
		wake = wake || a.Kind == core.ActionWake
	}
	if m.Idle() && wake {
		return found(QuietWhenIdle, "a machine that waits for nothing, %s, wants to be woken", m)
	}
	// After a release that left a renewal in doubt a machine may look once more. After a
	// refusal it goes on until what it may have left is released.
	cleansUp := g.end == core.ActionReleased || g.end == core.ActionRefused && m.String() == core.LeaseReleasing.String()
	if g.end != 0 && !cleansUp && !m.Idle() {
		return found(QuietWhenIdle, "a machine that said %s still waits for something, %s", g.end, m)
	}
	return nil
}

func (g *Guard) action(a *core.Action) *Violation {
	switch a.Kind {
	case core.ActionLost, core.ActionRefused, core.ActionLeft, core.ActionReleased, core.ActionCannotMaintain:
		if g.end != 0 {
			return found(NoResurrection, "a machine says %s after it said %s", a.Kind, g.end)
		}
		g.end = a.Kind
	case core.ActionHeld, core.ActionRenewed, core.ActionAdopted:
		if g.end != 0 {
			return found(NoResurrection, "a machine says %s after it said %s", a.Kind, g.end)
		}
	case core.ActionPut, core.ActionCreate, core.ActionDelete:
		// A late renewal on top of a release is released once more, and what a refused attempt
		// may have left; nothing else.
		if g.end != 0 && !releasesAfter(g.end, a) {
			return found(NoClobber, "a machine sends %s of %s after it said %s", a.Kind, a.Key, g.end)
		}
		if g.Own != nil && a.Kind != core.ActionCreate && !g.Own(a.Kind, a.Key) {
			return found(NoClobber, "a machine sends %s of %s, which is not its own", a.Kind, a.Key)
		}
	}
	return nil
}

// releasesAfter reports whether a machine that has said end may send this: a release of what
// it may have left.
func releasesAfter(end core.ActionKind, a *core.Action) bool {
	switch body := string(a.Body); a.Kind {
	case core.ActionPut:
		return (end == core.ActionReleased || end == core.ActionRefused) && strings.Contains(body, `"released_at"`)
	case core.ActionDelete: // of superseded versions
		return end == core.ActionReleased
	case core.ActionCreate:
		return end == core.ActionRefused && strings.Contains(body, `"state": "released"`)
	}
	return false
}
