package main

import (
	"fmt"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
	"github.com/mopslock/mopslock/tests/world"
)

// process is an orchestrator: so many slots, and a host for each store prefix that
// its names lie under.
type process struct {
	number int
	hosts  []*host
	slots  []*slot
}

// host is a process on one prefix: its client there, and what is measured of its session.
type host struct {
	process *process
	prefix  *prefix
	client  *world.Process // nil: it has not begun yet
	claims  uint64         // that were begun
	asked   map[core.RequestID]bool

	wakeAt int64 // when the client wants to be woken, or Never
	queued int64 // the earliest wake that stands in the queue for it, or Never

	due   int64 // when the renewal under way had to begin, 0 for none
	put   int64 // when the latest beat was sent
	beats int   // requests of the renewal under way

	second, sent int32 // requests of the session in this second
}

// start makes a host's client.
func (f *fleet) start(h *host) {
	client, err := machines.New(core.Config{
		Machine: core.MachineClient, Seed: f.chance.Seed16(), StampUnit: stampUnit, Samples: true, Host: "orchestrator", PID: "1",
	})
	if err != nil {
		panic("scale: " + err.Error())
	}
	*h = host{
		process: h.process, prefix: h.prefix, client: &world.Process{Client: client},
		asked: map[core.RequestID]bool{}, wakeAt: core.Never, queued: core.Never,
	}
}

// step tells a client what happened, and does what it asks for.
func (f *fleet) step(h *host, ev core.Event) {
	until := int64(0)
	for _, s := range h.client.Sessions {
		until = s.Until
	}
	actions, err := h.client.Step(core.Instant{Mono: f.Now, Wall: world.Epoch + f.Now}, ev)
	if err != nil {
		panic(fmt.Sprintf("scale: a client, told %s: %v", ev.Kind, err))
	}
	f.stats.steps++
	h.wakeAt = core.Never
	for i := range actions {
		switch a := &actions[i]; {
		case a.Kind.IsRequest():
			f.send(h, a)
		case a.Kind == core.ActionWake:
			h.wakeAt = a.At
		case a.Kind == core.ActionAbandon:
			delete(h.asked, a.Request)
		case a.Claim == 0:
			f.hearSession(h, a, until)
		default:
			for _, s := range h.process.slots {
				if s.host == h && s.claim == a.Claim {
					f.hear(s, a)
				}
			}
		}
	}
	f.setWake(h)
}

// setWake queues a client's wake, unless one before it is queued, which sets another.
func (f *fleet) setWake(h *host) {
	if h.wakeAt == core.Never || h.queued <= h.wakeAt {
		return
	}
	client, at := h.client, max(h.wakeAt, f.Now)
	h.queued = at
	f.At(at, func() {
		if h.client != client || h.queued != at {
			return // another one was queued before it
		}
		h.queued = core.Never
		if h.wakeAt > f.Now {
			f.setWake(h)
			return
		}
		f.step(h, core.Event{Kind: core.EventWoke})
	})
}

// hearSession takes what a client says of its session, which was relied on until then.
func (f *fleet) hearSession(h *host, a *core.Action, until int64) {
	switch a.Kind {
	case core.ActionRenewed:
		f.stats.renewed(f.Now, h, until)
	case core.ActionLost:
		f.stats.count(f.Now, &f.stats.dead)
	case core.ActionHeld, core.ActionLeft:
	default: // of the store
		return
	}
	h.due, h.beats = 0, 0
}
