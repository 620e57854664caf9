package host

import (
	"context"
	"time"

	"github.com/mopslock/mopslock/core"
)

// tidyPatience is how long a process that closes its Host, or leaves a lease held, waits for
// the removal of superseded versions. Without the wait a process that lives for a moment, as
// in scripts, would remove none, and a name that is used in no other way would grow
// forever. What is left is for the next holder. A release does not wait: its machine goes on
// with the removal behind it, and Close waits for that as for any task.
const tidyPatience = 500 * time.Millisecond

// isTidying reports whether the request under way is of such a removal: nothing
// else lists, reads or deletes while a lease is held, but for a look at the chain
// now and then, which is short; and nothing else is asked while a semaphore has no
// work.
func (t *task) isTidying() bool {
	if t.shared != nil {
		return t.inFlight[0] != nil && t.machine.String() == core.SemaphoreIdle.String()
	}
	if t.inFlight[0] == nil || t.gone || !t.guarded || t.protocol != core.ProtocolStrict || t.isWaiting() {
		return false
	}
	verb := t.inFlight[0].action.Kind
	return verb == core.ActionList || verb == core.ActionGet || verb == core.ActionDelete
}

// awaitTidied waits until a task, or with nil each semaphore, has nothing to tidy.
func (l *loop) awaitTidied(ctx context.Context, only *task) {
	var busy []<-chan struct{}
	asked := make(chan struct{})
	l.post(message{do: func() {
		defer close(asked)
		for t := range l.everybody() {
			if (t == only || only == nil && t.shared != nil) && t.isTidying() {
				if t.tidied == nil {
					t.tidied = make(chan struct{})
				}
				busy = append(busy, t.tidied)
			}
		}
	}})
	select {
	case <-asked:
	case <-ctx.Done():
		return
	case <-l.stopped:
		return
	}
	timer := time.NewTimer(tidyPatience)
	defer timer.Stop()
	for _, tidied := range busy {
		select {
		case <-tidied:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-l.stopped:
			return
		}
	}
}

// tellTidied tells the callers that wait for it, after a step.
func (t *task) tellTidied() {
	if t.tidied != nil && !t.isTidying() {
		close(t.tidied)
		t.tidied = nil
	}
}
