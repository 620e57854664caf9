//go:build mopslock_mutations

package base

import "github.com/mopslock/mopslock/core"

func (m *Machine) interpret(ev *core.Event, verb core.ActionKind) {
	doubtful := ev.Outcome == core.OutcomeUnknown
	switch {
	case m.Has(UnknownIsNo) && doubtful && (verb == core.ActionExists || verb == core.ActionCreate):
		ev.Outcome = core.OutcomeNo
	case m.Has(UnknownIsYes) && doubtful && verb == core.ActionCreate:
		ev.Outcome = core.OutcomeYes
	case verb == core.ActionList && ev.More && len(ev.Entries) == 0:
		ev.Outcome, ev.Class = core.OutcomeUnknown, core.ClassOther
	}
}
