package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// task is what the machines share that do one thing and end.
type task struct{ base.Standing[core.TaskState] }

func newTask() task { return task{base.At(core.TaskIdle, TaskEdges[:])} }

// Accepts is the contract's table for commands.
func (t *task) Accepts(kind core.EventKind) bool {
	switch kind {
	case core.EventBegin:
		return t.State == core.TaskIdle
	case core.EventCancel:
		return t.State != core.TaskIdle
	}
	return base.IsNews(kind)
}

// hasEnded reports whether it is done or refused: a cancel comes too late.
func (t *task) hasEnded() bool { return t.State >= core.TaskDone }
