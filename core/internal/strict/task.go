package strict

import "github.com/mopslock/mopslock/core"

// taskAccepts is the contract's table of the machines that do one thing.
func taskAccepts(state core.TaskState, kind core.EventKind) bool {
	switch kind {
	case core.EventAnswer, core.EventChanged, core.EventWoke:
		return true
	case core.EventBegin:
		return state == core.TaskIdle
	case core.EventCancel:
		return state != core.TaskIdle
	}
	return false
}
