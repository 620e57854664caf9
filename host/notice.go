package host

import (
	"cmp"
	"context"
	"slices"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// notice carries a machine's notice to whoever waits for it.
func (k *keeper) notice(m *member, a *core.Action) {
	switch a.Kind {
	case core.ActionCalibrate:
		k.calibrate(m)
		return
	case core.ActionWarned:
		k.warn(m, a)
		return
	}
	if m.hears != nil {
		m.hears(a)
		return
	}
	k.tenure(m, a)
}

// tenure takes a notice of a lease's or a companion's machine.
func (k *keeper) tenure(m *member, a *core.Action) {
	switch a.Kind {
	case core.ActionWaiting:
		m.nowWaiting(k, a)
	case core.ActionHeld:
		m.waiting, m.silent, m.missed = false, false, false
		k.noteHeld(m, a)
		m.nowHeld(a)
		m.watchAbove(k)
		k.host.memory.forget(m.name)
	case core.ActionAdopted:
		m.nowAdopted(a.Epoch)
		m.watchAbove(k)
	case core.ActionDeadline:
		m.setDeadline(a.At)
	case core.ActionRenewed:
		k.noteRenewed(m, m.deadline)
		m.nowRenewed(a.At)
	case core.ActionContactLost:
		k.host.telemetry.ContactLost(m.name)
		m.silent = true
		m.setContact(false)
	case core.ActionReleased:
		k.host.memory.released(m.name, m.looked, a)
		k.noteReleased(m)
		m.end(&Error{Kind: Ended, Name: m.name, Reason: core.ReasonReleased})
		k.nudge(m.name, k.host.clock.Now().Mono)
	case core.ActionLeft:
		k.noteReleased(m)
		m.end(&Error{Kind: Ended, Name: m.name})
	case core.ActionRefused:
		k.host.memory.saw(m.name, m.protocol, a.Sight)
		m.end(k.failure(m, Refused, a))
		if m.nudged {
			k.nudge(m.name, m.lookout.Freed())
		}
	case core.ActionLost:
		err := k.failure(m, Lost, a)
		k.noteLost(m, a.Reason, err)
		m.end(err)
	case core.ActionCannotMaintain:
		m.end(k.failure(m, CannotMaintain, a))
	}
}

func (k *keeper) failure(m *member, kind Kind, a *core.Action) error {
	ill := m.troubles()
	if ill.cause != nil && a.Reason == core.ReasonCancelled {
		return ill.cause
	}
	if kind != Lost && (a.Reason == core.ReasonNewer || a.Reason == core.ReasonKind) {
		kind = Unfit
	}
	err := &Error{Kind: kind, Name: m.name, Reason: a.Reason, Class: a.Class}
	if kind == Refused && a.Reason == core.ReasonUnreachable {
		err.Class = cmp.Or(a.Class, core.ClassUnreachable) // it was silent, too
	}
	if err.Class != core.ClassNone {
		err.Err = ill.failed
	}
	if ill.stranded != nil {
		err.Err = &EngineError{ill.stranded}
	}
	if a.Sight != nil {
		seen := newStatus(m.name, m.protocol, a.Sight, k.host.clock.Now())
		err.Seen = &seen
	}
	return err
}

func (k *keeper) warn(m *member, a *core.Action) {
	switch a.Reason {
	case core.ReasonTTLDiffers:
		k.host.log.Warn("this name is in use with another TTL, which can give it two holders; use one everywhere",
			"name", m.name, "their_ttl", a.Sight.TTL)
	case core.ReasonCorruptTaken:
		k.host.log.Warn("an unreadable record has stood too long and is taken over", "name", m.name, "key", a.Key)
	case core.ReasonEmptied:
		k.host.log.Warn("the versions of a held name were removed from the store; keep lifecycle rules off _mopslock",
			"name", m.name)
	case core.ReasonMixed:
		k.host.log.Warn("an old client holds this name by lock.json, beside a strict lease; use one protocol for a name",
			"name", m.name, "their_holder", holderOf(a.Sight))
	}
}

func holderOf(s *core.Sighting) string {
	if s == nil {
		return ""
	}
	return Printable(string(s.Holder))
}

// nudge tells the longest waiter in this process that a lease was released.
// One is enough, and a crowd would only lose races; if that one gives up, the
// next one is told. released is when that was, a Mono, or 0.
func (k *keeper) nudge(name string, released int64) {
	for _, m := range k.members[name] {
		if m.waiting {
			m.nudged = true
			m.lookout.FreedHere(released)
			k.post(message{do: func() { k.changed(m) }})
			return
		}
	}
}

// canLook reports whether the machine would heed changed at this moment. What
// m.waiting says is that a lease is wanted, also while it is being looked at.
func (m *member) canLook() bool {
	state := m.machine.String()
	return state == core.LeaseWaiting.String() || state == core.InvocationAwaiting.String() || m.isHolding()
}

// isHolding reports whether the machine holds, so that changed may tell it of a break.
func (m *member) isHolding() bool {
	switch m.machine.String() {
	case core.LeaseHeld.String(), core.CompanionJoined.String(), core.InvocationLaunched.String(), core.SessionInForce.String():
		return m.shared == nil // a semaphore that waits for nobody has nothing to look for
	}
	return false
}

// watchAbove watches what a break of a strict lease that is held makes. Of one on a
// session the session is called, and its call is watched. An invocation does so itself.
func (m *member) watchAbove(k *keeper) {
	if m.via != nil {
		return
	}
	if m.protocol != core.ProtocolStrict || m.session != nil {
		m.stopWatching()
		return
	}
	m.watch(k, versionKey(m.name, m.epoch+1))
}

func (m *member) nowWaiting(k *keeper, a *core.Action) {
	m.waiting = true
	m.watch(k, m.keyToWatch(a.Sight))
	m.nowSeen(a.Sight)
}

// nowSeen takes whom the caller waits for, first and at every change.
func (m *member) nowSeen(s *core.Sighting) {
	m.keeper.host.memory.saw(m.name, m.protocol, s)
	m.noteWaiting(s)
	if s == nil {
		return
	}
	seen := newStatus(m.name, m.protocol, s, m.keeper.host.clock.Now())
	m.mu.Lock()
	m.seen = &seen
	m.mu.Unlock()
	if m.waitsForItself() {
		m.trouble().cause = &Error{Kind: Refused, Name: m.name, Reason: core.ReasonHeld, Seen: &seen, of: ofOwn}
		m.keeper.post(message{to: m, event: core.Event{Kind: core.EventCancel}})
		return
	}
	if m.onWaiting != nil {
		m.onWaiting(seen)
	}
}

// leaseKey is the key of a lease, or of what accompanies one, in the contexts of what is
// done under it.
type leaseKey struct {
	host *Host
	name string
}

// within is ctx for what is done under the lease: who waits there for the same name waits
// for itself.
func (m *member) within(ctx context.Context) context.Context {
	if m == nil || m.claim != nil { // of a semaphore one may hold two permits
		return ctx
	}
	return context.WithValue(ctx, leaseKey{m.keeper.host, m.name}, m)
}

// waitsForItself reports whether its caller's ctx is of a lease on the same name that is
// held.
func (m *member) waitsForItself() bool {
	own, _ := m.ctx.Value(leaseKey{m.keeper.host, m.name}).(*member)
	return own != nil && own.context().Err() == nil
}

// keyToWatch is what changes when the name is released: its record, or the
// version after the one that was seen.
func (m *member) keyToWatch(s *core.Sighting) string {
	if m.protocol != core.ProtocolStrict {
		return recordKey(m.name)
	}
	return versionKey(m.name, s.Epoch+1)
}

// watching is one key that a local directory tells of.
type watching struct {
	key  string
	over bool
	stop func() // nil while the watch is being made
}

// end is no work for the keeper, since it can wait for a Watch that hangs on a
// dead mount. One that is just being made is ended when it arrives.
func (w *watching) end(k *keeper) {
	w.over = true
	if w.stop != nil {
		k.io.Go(w.stop)
		w.stop = nil
	}
}

func (m *member) watcher() (store.Watcher, bool) {
	w, ok := m.keeper.host.store.(store.Watcher)
	return w, ok
}

// watch asks a local directory to tell of changes of these keys and no others. Who
// waits looks once more when it has begun: what changed before it is not told.
func (m *member) watch(k *keeper, keys ...string) {
	watcher, ok := m.watcher()
	if !ok {
		return
	}
	m.watches = slices.DeleteFunc(m.watches, func(w *watching) bool {
		if !slices.Contains(keys, w.key) {
			w.end(k)
		}
		return w.over
	})
	for _, key := range keys {
		if slices.ContainsFunc(m.watches, func(w *watching) bool { return w.key == key }) {
			continue
		}
		w := &watching{key: key}
		m.watches = append(m.watches, w)
		k.io.Go(func() { m.beginWatch(watcher, w) })
	}
}

func (m *member) beginWatch(watcher store.Watcher, w *watching) {
	k := m.keeper
	changed := message{do: func() { k.changed(m) }}
	stop, err := watcher.Watch(w.key, func() { k.post(changed) })
	if err != nil {
		k.host.log.Debug("no file events; polling alone", "name", m.name, "error", err)
		return
	}
	k.post(message{do: func() {
		if w.over {
			k.io.Go(stop)
			return
		}
		w.stop = stop
		if !m.isHolding() { // whose next renewal looks
			k.changed(m)
		}
	}})
}

func (m *member) stopWatching() {
	for _, w := range m.watches {
		w.end(m.keeper)
	}
	m.watches = nil
}
