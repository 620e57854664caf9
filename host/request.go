package host

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// request is a store request that a machine asked for.
type request struct {
	from   *member
	ctx    context.Context
	cancel context.CancelFunc
	action core.Action
}

// request starts a store request, or lets it wait for a slot. Its limit counts
// from now either way. The machine has let go of any earlier one.
func (k *keeper) request(m *member, a core.Action) {
	m.cancelRequest()
	r := &request{from: m, action: a}
	r.action.Body = bytes.Clone(a.Body) // the machine writes the next one over it
	r.action.Sight = nil
	ctx, cancel := context.WithTimeout(k.ctx, a.Limit)
	// At its limit it is answered, whether or not it had a slot and whether or
	// not the store heeds ctx: a caller must not hang on a dead mount. A second
	// answer, from the store after all, changes nothing.
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			k.post(message{do: func() { k.answer(r, unanswered(a.Request)) }})
		}
	})
	r.ctx, r.cancel = ctx, func() { stop(); cancel() }
	m.inFlight = r
	if len(k.ready) > 2*k.count { // while all slots hang, those let go would pile up
		k.ready = slices.DeleteFunc(k.ready, func(old *request) bool { return old.ctx.Err() != nil })
	}
	k.ready = append(k.ready, r)
	k.startReady()
}

func unanswered(id core.RequestID) core.Event {
	return core.Event{
		Kind: core.EventAnswer, Request: id,
		Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable,
	}
}

// answer gives a machine the answer to its request.
func (k *keeper) answer(r *request, event core.Event) {
	m := r.from
	if m.inFlight == r {
		m.inFlight = nil // its body is not kept until the next one
	}
	if !m.gone {
		k.step(m, event)
	}
}

func (k *keeper) startReady() {
	for !k.over && k.slots > 0 && len(k.ready) > 0 {
		r := k.ready[0]
		k.ready[0] = nil
		k.ready = k.ready[1:]
		if r.ctx.Err() != nil {
			continue // let go, or answered at its limit
		}
		k.slots--
		k.io.Add(1)
		go k.perform(r)
	}
}

// perform does one request and posts its answer.
func (k *keeper) perform(r *request) {
	defer k.io.Done()
	event, err := k.ask(r)
	r.cancel()
	k.post(message{do: func() {
		k.slots++
		k.startReady()
		if event.Outcome == core.OutcomeUnknown {
			r.from.failed = err
		}
		k.answer(r, event)
	}})
}

// ask turns the store's answer into the core's three outcomes.
func (k *keeper) ask(r *request) (core.Event, error) {
	a := &r.action
	event := core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
	var err error
	switch a.Kind {
	case core.ActionGet:
		var object store.Object
		object, err = k.host.store.Get(r.ctx, a.Key)
		event.Body, event.Stamp = object.Body, knownStamp(object.Stamp)
	default:
		err = k.host.store.Put(r.ctx, a.Key, a.Body, a.Type)
	}
	if err == nil || errors.Is(err, store.ErrAbsent) {
		k.host.reached.Store(true)
	}
	switch {
	case err == nil:
	case a.Kind == core.ActionGet && errors.Is(err, store.ErrAbsent):
		event.Outcome, event.Body = core.OutcomeNo, nil
	default:
		event.Outcome, event.Class, event.Body = core.OutcomeUnknown, classOf(err), nil
		if !errors.Is(r.ctx.Err(), context.Canceled) { // nobody wanted it any more
			k.host.log.Debug("request failed", "name", r.from.name, "verb", a.Kind.String(),
				"class", event.Class.String(), "error", err)
		}
	}
	return event, err
}

// knownStamp is a store's stamp that the core can reckon with, or 0 for none: an
// object may be dated anyhow, and that must not look like a fault of ours.
func knownStamp(stamp int64) int64 {
	if stamp > core.MaxClockRange || stamp < -core.MaxClockRange {
		return 0
	}
	return stamp
}

// classOf is the class that the store gave its error; only it knows what its
// server's words mean.
func classOf(err error) core.Class {
	if e, ok := errors.AsType[*store.Error](err); ok && e.Class != core.ClassNone && e.Class <= core.ClassFull {
		return e.Class
	}
	return store.ClassOf(err)
}
