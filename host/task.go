package host

import (
	"context"
	"errors"

	"github.com/mopslock/mopslock/core"
)

// errTaskDone ends a task that said no more than that it is done.
var errTaskDone = errors.New("mopslock: host: done")

// newTask is a member with a machine of the host's own that does one thing and
// ends. Its caller awaits it.
func (h *Host) newTask(ctx context.Context, machine core.Stepper, name string) *member {
	m := &member{
		keeper: h.keeper, machine: machine, name: name, index: -1, foreign: true,
		settled: make(chan struct{}), ctx: ctx,
	}
	m.hears = func(a *core.Action) {
		if a.Kind == core.ActionRefused {
			m.end(h.keeper.failure(m, Refused, a))
		}
	}
	return m
}

// task runs a machine that does one thing, and hands its last word to said. It
// returns what the machine was refused for, ErrClosed, or ctx's cause.
func (h *Host) task(ctx context.Context, cfg *core.Config, said func(*core.Action)) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if h.keeper.isClosed() {
		return ErrClosed
	}
	m, err := h.newMember(ctx, cfg, 0, nil)
	if err != nil {
		return err
	}
	m.hears = func(a *core.Action) {
		if a.Kind == core.ActionRefused {
			m.end(h.keeper.failure(m, Refused, a))
			return
		}
		said(a) // before await returns, which waits for end
		m.end(errTaskDone)
	}
	if err := h.keeper.add(m, core.Event{Kind: core.EventBegin}); err != nil {
		return err
	}
	if err := m.await(ctx); !errors.Is(err, errTaskDone) {
		return err
	}
	return nil
}

// dismiss ends a member whose machine knows no farewell.
func (k *keeper) dismiss(m *member) {
	if !m.gone {
		m.end(ErrClosed)
		k.remove(m)
	}
}

// bidFarewell asks a member to end.
func (k *keeper) bidFarewell(m *member) {
	if m.farewell == 0 {
		k.dismiss(m)
		return
	}
	m.letGo()
	k.step(m, m.goodbye())
}
