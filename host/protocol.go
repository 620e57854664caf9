package host

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
	"github.com/mopslock/mopslock/host/store/capability"
	"github.com/mopslock/mopslock/host/store/local" // and file://
)

// abilities is what this Host has found out about its store.
type abilities struct {
	creates atomic.Int32 // createUnknown, createHonoured or createIgnored
	seen    string       // of createIgnored: what was seen; set before it
	told    atomic.Bool  // the log has it that auto falls back on lastwriter

	mu     sync.Mutex
	asking *task  // finds it out, for all callers that wait for it
	own    string // key of the object that is created if the record is throttled, or ""
}

// resolved is how a name is kept.
type resolved struct {
	protocol        core.Protocol
	lockFilePresent bool // strict, and the name has a lock.json
}

// resolve says by which protocol a lease on a name is kept; see Terms.Protocol.
//
// The Host remembers what it finds out about the store. Each Host tries the store for
// itself, by the endpoint that it uses: two requests if the store has a capability record
// (package capability), six if it has none. It believes a record that refuses the store: a
// process that saw two winners has left it.
func (h *Host) resolve(ctx context.Context, name string, want core.Protocol, wait time.Duration) (resolved, error) {
	switch {
	case core.CheckName(name) != nil: // the machine will say so, with whatever else is wrong
		return resolved{protocol: cmp.Or(want, core.ProtocolStrict)}, nil
	case want == core.ProtocolLastWriter:
		return resolved{protocol: core.ProtocolLastWriter}, nil
	case want != 0 && want != core.ProtocolStrict:
		return resolved{}, badTerms("protocol: must be strict, lastwriter, or 0 for auto")
	}
	if err := h.checkKeys(name, core.ProtocolStrict); err != nil {
		return resolved{}, err
	}
	lockFilePresent, err := h.hasRecord(ctx, name, wait)
	if err != nil {
		return resolved{}, err
	}
	if lockFilePresent && want == 0 {
		h.log.Warn("this name has a lock.json, so its lease is kept by lastwriter, without a fencing token; if mops shares the name ask for lastwriter, else for strict", "name", name)
		return resolved{protocol: core.ProtocolLastWriter}, nil
	}
	honoured, err := h.createIsHonoured(ctx, name, wait)
	switch {
	case err != nil:
		return resolved{}, err
	case honoured:
		return resolved{core.ProtocolStrict, lockFilePresent}, nil
	case want == core.ProtocolStrict:
		return resolved{}, h.incompatible(name)
	}
	if !h.abilities.told.Swap(true) {
		h.log.Warn("the store does not honour create-if-absent, so leases are kept by lastwriter, without a fencing token", "seen", h.abilities.seen)
	}
	return resolved{protocol: core.ProtocolLastWriter}, nil
}

// wanted is a lease that is to be acquired, when it is known how the name is kept.
type wanted struct {
	core.Config
	wait   time.Duration // what is left of it
	looked int64         // as of a task
}

// settle finds out how a name is kept and makes the Config of its machine.
func (h *Host) settle(ctx context.Context, kind core.MachineKind, name string, t *Terms, wait time.Duration) (w wanted, err error) {
	if err := h.checkTerms(kind, name, t); err != nil {
		return w, err
	}
	found := resolved{protocol: core.ProtocolStrict}
	begun := h.clock.Now().Mono
	last := h.memory.last(name)
	w.looked = last.looked
	if last.looked == 0 || begun-last.looked >= int64(core.NewestWindow) || t.Protocol == core.ProtocolLastWriter {
		if found, err = h.resolve(ctx, name, t.Protocol, wait); err != nil {
			return w, err
		}
		if w.looked = 0; !found.lockFilePresent {
			w.looked = max(1, begun) // a clock that tests bring begins at 0
		}
	}
	if w.wait = wait; wait > 0 {
		w.wait = max(0, wait-time.Duration(h.clock.Now().Mono-begun))
	}
	if w.Config, err = h.config(kind, name, found.protocol, t); err == nil && found.protocol == core.ProtocolStrict {
		w.LockFilePresent, w.LastEpoch, w.LastAt = found.lockFilePresent, last.epoch, last.at
		w.SeenFingerprint, w.SeenSince = h.memory.observed(name)
	}
	return w, err
}

// incompatible returns the error of a call that needs create-if-absent, once the store is
// known to ignore that: with what was seen, if a process saw it.
func (h *Host) incompatible(name string) *Error {
	e := &Error{Kind: Incompatible, Name: name}
	if text := h.abilities.seen; text != "" {
		e.Err = errors.New(text)
	}
	return e
}

// hasRecord asks whether an old client has a record under the name.
func (h *Host) hasRecord(ctx context.Context, name string, wait time.Duration) (bool, error) {
	return h.exists(ctx, name, recordKey(name), wait)
}

// exists asks whether a name has an object with this key.
func (h *Host) exists(ctx context.Context, name, key string, wait time.Duration) (bool, error) {
	p := &prober{step: probeRecord, record: key, wait: wait, answered: h.Reached()}
	t := h.newOwnTask(ctx, p, name)
	p.failure = func() error { return t.readFailures().lastError }
	if err := h.loop.add(t, core.Event{Kind: core.EventBegin}); err != nil {
		return false, err
	}
	if err := t.await(ctx); !errors.Is(err, errDone) {
		return false, err
	}
	return p.there, nil
}

// isOurOwn reports whether the store honours create-if-absent because we made it so: a
// directory, or memory.
func (h *Host) isOurOwn() bool {
	if _, ok := store.Unguarded(h.store).(*local.Store); ok {
		return true
	}
	return strings.HasPrefix(h.url, "mem:")
}

// createIsHonoured asks the store, unless the Host knows. All callers that ask at the
// same time wait for one answer, and all get its failure.
func (h *Host) createIsHonoured(ctx context.Context, name string, wait time.Duration) (bool, error) {
	a := &h.abilities
	if known := a.creates.Load(); known != createUnknown {
		return known == createHonoured, nil
	}
	var late <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		late = timer.C
	}
	for {
		asking, err := h.askStore()
		if err != nil {
			return false, err
		}
		select {
		case <-asking.signal(&asking.ended, &asking.over):
		case <-late:
			reason := core.ReasonLimit
			if !h.Reached() {
				reason = core.ReasonUnreachable // not once
			}
			return false, &Error{Kind: NotAcquired, Name: name, Reason: reason, Class: core.ClassUnreachable}
		case <-ctx.Done():
			return false, &waitError{&Error{Name: name}, context.Cause(ctx)}
		}
		err = asking.failure()
		switch {
		case errors.Is(err, errDone):
			return a.creates.Load() == createHonoured, nil
		case wait != 0 && errors.Is(err, &Error{Kind: NotAcquired, Reason: core.ReasonLimit}):
			continue // it has answered before, so a waiter carries on
		}
		return false, refusedOf(name, err)
	}
}

// askStore begins to ask, or returns the task that already asks.
func (h *Host) askStore() (*task, error) {
	a := &h.abilities
	a.mu.Lock()
	defer a.mu.Unlock()
	// A caller that found it unknown may get here when it is known. It must not ask
	// again: a.seen is read without a lock from then on.
	if t := a.asking; t != nil && (t.failure() == nil || a.creates.Load() != createUnknown) {
		return t, nil
	}
	p := &prober{step: probeCapability, nonce: h.newID, wait: probePatience, answered: h.Reached(), written: h.written.Load(), own: a.own, tries: a.tries}
	t := h.newOwnTask(context.Background(), p, "")
	p.failure = func() error { return t.readFailures().lastError }
	p.compete = func(nonce string, limit time.Duration) error { return h.compete(t, p, nonce, limit) }
	p.found = func(creates int32, seen string) {
		h.log.Info("tried whether the store honours create-if-absent", "honoured", creates == createHonoured, "seen", seen)
		a.seen = seen
		a.creates.Store(creates)
		h.loop.sweepTried(betweenWrites)
	}
	if err := h.loop.add(t, core.Event{Kind: core.EventBegin}); err != nil {
		return nil, err // no caller may wait for a task that has not begun
	}
	a.asking = t
	return t, nil
}

// compete begins one create for a prober that is the machine of t.
func (h *Host) compete(t *task, p *prober, nonce string, limit time.Duration) error {
	r := &competitor{request: core.Action{
		Kind: core.ActionCreate, Request: 1, Key: capabilityKey, Type: capability.Type, Body: capability.Record{Nonce: nonce}.Body(), Limit: limit,
	}}
	own := h.newOwnTask(context.Background(), r, "")
	r.ended = func(ev *core.Event) {
		failed := own.readFailures().lastError
		if failed != nil {
			t.makeFailures().lastError = failed
		}
		if p.raced(nonce, ev, failed); p.racing == 0 {
			h.loop.post(message{to: t, event: core.Event{Kind: core.EventWoke}})
		}
	}
	return h.loop.add(own, core.Event{Kind: core.EventBegin})
}

// tries remembers which object is created instead of the capability record: if this prober
// is refused, the next one tries the same object.
func (a *abilities) tries(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.own = key
}

// sweepTried removes that object, if there may be one.
func (l *loop) sweepTried(after time.Duration) {
	a := &l.host.abilities
	a.mu.Lock()
	key := a.own
	a.own = ""
	a.mu.Unlock()
	if key != "" {
		l.sendOnce(core.Action{Kind: core.ActionDelete, Key: key, Limit: tidyLimit}, after)
	}
}
