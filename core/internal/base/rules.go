//go:build !mopslock_mutations

package base

import "github.com/mopslock/mopslock/core"

// interpret makes unknown of what is not the store's own word (PROTOCOL T4). That there is
// nothing is not what a list says that shows nothing and has more.
func (m *Machine) interpret(ev *core.Event, verb core.ActionKind) {
	if verb == core.ActionList && ev.More && len(ev.Entries) == 0 {
		ev.Outcome, ev.Class = core.OutcomeUnknown, core.ClassOther
	}
}
