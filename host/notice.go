package host

import (
	"cmp"
	"context"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// notice carries a machine's notice to the caller that waits for it.
func (l *loop) notice(t *task, a *core.Action) {
	switch a.Kind {
	case core.ActionSampleStoreClock:
		l.sampleStoreClock(t)
		return
	case core.ActionWarned:
		if t.beats != nil && a.Reason != core.ReasonEmptied {
			l.cannotBeat(t.beats, a.Reason, a.Class)
			return
		}
		l.warn(t, a)
		return
	}
	if t.hears != nil {
		t.hears(a)
		return
	}
	l.tenure(t, a)
}

// tenure takes a notice of a lease's or a companion's machine.
func (l *loop) tenure(t *task, a *core.Action) {
	switch a.Kind {
	case core.ActionWaiting:
		t.nowWaiting(l, a)
	case core.ActionHeld:
		t.waiting, t.silent, t.missed = false, false, false
		l.recordHeld(t, a)
		t.nowHeld(a)
		t.watchAbove(l)
		l.host.memory.forget(t.name)
	case core.ActionAdopted:
		t.nowAdopted(a.Epoch)
		t.watchAbove(l)
	case core.ActionDeadline:
		t.setDeadline(a.At)
	case core.ActionRenewed:
		l.recordRenewed(t, t.deadline)
		t.nowRenewed(a.At)
	case core.ActionContactLost:
		l.host.telemetry.ContactLost(t.name)
		t.silent = true
		t.setContact(false)
	case core.ActionReleased:
		l.host.memory.released(t.name, t.looked, a)
		l.recordReleased(t)
		t.end(&Error{Kind: Ended, Name: t.name, Reason: core.ReasonReleased})
		l.wakeOneWaiter(t.name, l.host.clock.Now().Mono)
	case core.ActionLeft:
		l.recordReleased(t)
		t.end(&Error{Kind: Ended, Name: t.name})
	case core.ActionRefused:
		l.host.memory.saw(t.name, t.protocol, a.Observed)
		t.end(l.failure(t, NotAcquired, a))
		if t.toldOfRelease {
			l.wakeOneWaiter(t.name, t.handover.Freed())
		}
	case core.ActionLost:
		err := l.failure(t, Lost, a)
		l.recordLost(t, a.Reason, err)
		t.end(err)
	case core.ActionCannotMaintain:
		t.end(l.failure(t, NothingToJoin, a))
	}
}

func (l *loop) failure(t *task, kind Kind, a *core.Action) error {
	failed := t.readFailures()
	if failed.cause != nil && a.Reason == core.ReasonCancelled {
		return failed.cause
	}
	if kind != Lost && (a.Reason == core.ReasonNewer || a.Reason == core.ReasonKind) {
		kind = Incompatible
	}
	err := &Error{Kind: kind, Name: t.name, Reason: a.Reason, Class: a.Class}
	if kind == NotAcquired && a.Reason == core.ReasonUnreachable {
		err.Class = cmp.Or(a.Class, core.ClassUnreachable) // it was silent, too
	}
	if err.Class != core.ClassNone {
		err.Err = failed.lastError
	}
	if failed.engine != nil {
		err.Err = &EngineError{failed.engine}
	}
	if a.Observed != nil {
		seen := newStatus(t.name, t.protocol, a.Observed, l.host.clock.Now())
		err.Seen = &seen
	}
	return err
}

func (l *loop) warn(t *task, a *core.Action) {
	switch a.Reason {
	case core.ReasonTTLDiffers:
		l.host.log.Warn("this name is in use with another TTL, which can give it two holders; use one everywhere",
			"name", t.name, "their_ttl", a.Observed.TTL)
	case core.ReasonCorruptTaken:
		l.host.log.Warn("an unreadable record has stood too long and is taken over", "name", t.name, "key", a.Key)
	case core.ReasonEmptied:
		l.host.log.Warn("what keeps a held name was removed from the store; keep cleaning and lifecycle rules off it",
			"name", t.name, "key", a.Key)
	case core.ReasonUnusable:
		l.host.log.Warn("the store does not take a result; it is tried again", "name", t.name, "class", a.Class.String(), "error", t.readFailures().lastError)
	case core.ReasonMixed:
		l.host.log.Warn("an old client holds this name by lock.json, beside a strict lease; use one protocol for a name",
			"name", t.name, "their_holder", holderOf(a.Observed))
	}
}

func holderOf(s *core.Observed) string {
	if s == nil {
		return ""
	}
	return Printable(string(s.Holder))
}

// wakeOneWaiter tells the longest waiter in this process that a lease was released.
// One is enough, and a crowd would only lose races; if that one gives up, the
// next one is told. released is when that was, a Mono, or 0.
func (l *loop) wakeOneWaiter(name string, released int64) {
	for _, t := range l.tasks[name] {
		if t.waiting {
			t.toldOfRelease = true
			t.handover.FreedHere(released)
			l.post(message{do: func() { l.changed(t) }})
			return
		}
	}
}

// canLook reports whether the machine would use EventChanged at this moment. What
// t.waiting says is that a lease is wanted, also while the name is being read.
func (t *task) canLook() bool {
	state := t.machine.String()
	return state == core.LeaseWaiting.String() || state == core.InvocationAwaiting.String() || t.isHolding()
}

// isHolding reports whether the machine holds, so that changed may tell it of a break.
func (t *task) isHolding() bool {
	switch t.machine.String() {
	case core.LeaseHeld.String(), core.CompanionJoined.String(), core.InvocationLaunched.String(), core.SessionInForce.String():
		return t.shared == nil // a semaphore that waits for nobody has nothing to look for
	}
	return false
}

// watchAbove watches what a break of a strict lease that is held makes. Of one on a
// session the session is called, and its call is watched. An invocation does so itself.
func (t *task) watchAbove(l *loop) {
	if t.via != nil {
		return
	}
	if t.protocol != core.ProtocolStrict || t.session != nil {
		t.stopWatching()
		return
	}
	t.watch(l, versionKey(t.name, t.epoch+1))
}

func (t *task) nowWaiting(l *loop, a *core.Action) {
	t.waiting = true
	t.watch(l, t.keyToWatch(a.Observed))
	t.nowSeen(a.Observed)
}

// nowSeen takes whom the caller waits for, first and at every change.
func (t *task) nowSeen(s *core.Observed) {
	t.loop.host.memory.saw(t.name, t.protocol, s)
	t.recordWaiting(s)
	if s == nil {
		return
	}
	seen := newStatus(t.name, t.protocol, s, t.loop.host.clock.Now())
	t.mu.Lock()
	t.seen = &seen
	t.mu.Unlock()
	if t.waitsForItself() {
		t.makeFailures().cause = &Error{Kind: NotAcquired, Name: t.name, Reason: core.ReasonHeld, Seen: &seen, of: ofOwn}
		t.loop.post(message{to: t, event: core.Event{Kind: core.EventCancel}})
		return
	}
	if t.onWaiting != nil {
		t.onWaiting(seen)
	}
}

// leaseKey is the key of a lease, or of what accompanies one, in the contexts of what is
// done under it.
type leaseKey struct {
	place any // of the store (store.Place), or the Host of a store without one
	name  string
}

// within is ctx for what is done under the lease: who waits there for the same name waits
// for itself.
func (t *task) within(ctx context.Context) context.Context {
	if t == nil || t.permit != nil { // of a semaphore one may hold two permits
		return ctx
	}
	return context.WithValue(ctx, t.leaseKey(), t)
}

// waitsForItself reports whether its caller's ctx is of a lease on the same name that is
// held.
func (t *task) waitsForItself() bool {
	own, _ := t.ctx.Value(t.leaseKey()).(*task)
	return own != nil && own.context().Err() == nil
}

func (t *task) leaseKey() leaseKey {
	if place := t.loop.host.place; place != "" {
		return leaseKey{place, t.name}
	}
	return leaseKey{t.loop.host, t.name}
}

// keyToWatch is what changes when the name is released: its record, or the
// version after the one that was seen.
func (t *task) keyToWatch(s *core.Observed) string {
	if t.protocol != core.ProtocolStrict {
		return recordKey(t.name)
	}
	return versionKey(t.name, s.Epoch+1)
}

// watching is one key that a local directory tells of.
type watching struct {
	key  string
	over bool
	stop func() // nil while the watch is being made
}

// end does not run on the loop, since it can wait for a Watch that hangs on a dead
// mount. A watch that is just being made is ended when it arrives.
func (w *watching) end(l *loop) {
	w.over = true
	if w.stop != nil {
		l.io.Go(w.stop)
		w.stop = nil
	}
}

func (t *task) watcher() (store.Watcher, bool) {
	w, ok := t.loop.host.store.(store.Watcher)
	return w, ok
}

// watch asks a local directory to tell of changes of these keys and no others. Who
// waits looks once more when it has begun: what changed before it is not told.
func (t *task) watch(l *loop, keys ...string) {
	watcher, ok := t.watcher()
	if !ok {
		return
	}
	t.watches = slices.DeleteFunc(t.watches, func(w *watching) bool {
		if !slices.Contains(keys, w.key) {
			w.end(l)
		}
		return w.over
	})
	for _, key := range keys {
		if slices.ContainsFunc(t.watches, func(w *watching) bool { return w.key == key }) {
			continue
		}
		w := &watching{key: key}
		t.watches = append(t.watches, w)
		l.io.Go(func() { t.beginWatch(watcher, w) })
	}
}

func (t *task) beginWatch(watcher store.Watcher, w *watching) {
	l := t.loop
	changed := message{do: func() { l.changed(t) }}
	stop, err := watcher.Watch(w.key, func() { l.post(changed) })
	if err != nil {
		l.host.log.Debug("no file events; polling alone", "name", t.name, "error", err)
		return
	}
	l.post(message{do: func() {
		if w.over {
			l.io.Go(stop)
			return
		}
		w.stop = stop
		if !t.isHolding() { // whose next renewal looks
			l.changed(t)
		}
	}})
}

func (t *task) stopWatching() {
	for _, w := range t.watches {
		w.end(t.loop)
	}
	t.watches = nil
}
