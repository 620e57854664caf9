package core

// taskAccepts is the contract's table of the machines that do one thing.
func taskAccepts(state TaskState, kind EventKind) bool {
	switch kind {
	case EventAnswer, EventChanged, EventWoke:
		return true
	case EventBegin:
		return state == TaskIdle
	case EventCancel:
		return state != TaskIdle
	}
	return false
}
