package host

import (
	"context"
	"errors"

	"github.com/mopslock/mopslock/core"
)

// errDone ends a task that has done its one thing.
var errDone = errors.New("mopslock: host: done")

// newOwnTask is a task whose machine is the host's own, does one thing and ends. Its
// caller awaits it.
func (h *Host) newOwnTask(ctx context.Context, machine core.Stepper, name string) *task {
	t := &task{
		loop: h.loop, machine: machine, name: name, index: -1, foreign: true,
		settled: make(chan struct{}), ctx: ctx,
	}
	t.hears = func(a *core.Action) {
		if a.Kind == core.ActionRefused {
			t.end(h.loop.failure(t, NotAcquired, a))
		}
	}
	return t
}

// runOnce runs a machine that does one thing, and hands its last notice to said. It
// returns what the machine was refused for, ErrClosed, or ctx's cause.
func (h *Host) runOnce(ctx context.Context, cfg *core.Config, said func(*core.Action)) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if h.loop.isClosed() {
		return ErrClosed
	}
	t, err := h.newTask(ctx, cfg, 0, nil)
	if err != nil {
		return err
	}
	t.hears = func(a *core.Action) {
		if a.Kind == core.ActionRefused {
			t.end(h.loop.failure(t, NotAcquired, a))
			return
		}
		said(a) // before await returns, which waits for end
		t.end(errDone)
	}
	if err := h.loop.add(t, core.Event{Kind: core.EventBegin}); err != nil {
		return err
	}
	if err := t.await(ctx); !errors.Is(err, errDone) {
		return err
	}
	return nil
}

// drop ends a task whose machine has no stop event.
func (l *loop) drop(t *task) {
	if !t.gone {
		t.end(ErrClosed)
		l.remove(t)
	}
}

// stopTask asks a task to end.
func (l *loop) stopTask(t *task) {
	if t.stopKind == 0 {
		l.drop(t)
		return
	}
	t.invalidate()
	l.step(t, t.stopEvent())
}
