package host

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// What the keeper tells the log and the meter of what its members come to: all of it
// on the keeper's goroutine.

// lookout is what a waiter has seen of whom it waits for, which tells a hand-over from
// a take-over when it holds.
type lookout struct {
	epoch  core.Epoch // the newest that was told, under strict
	given  bool       // what was told had been released or broken
	looked int64      // Mono: when the last look was sent that showed it not free
	freed  int64      // Mono: when this Host had released it; 0 if it was another
	// Under lastwriter: what the latest look showed, and whether a put came after it,
	// after which reads are of our own.
	record core.Observation
	claims bool
}

// watchful reports whether anybody wants to know how a lease changed hands.
func (h *Host) watchful() bool {
	return h.meter != nil || h.log.Enabled(context.Background(), slog.LevelInfo)
}

// instantOf is when a member's request is sent; 0 if nobody wants to know.
func (k *keeper) instantOf(m *member) int64 {
	if m.service || m.held || !k.host.watchful() {
		return 0
	}
	return k.host.clock.Now().Mono
}

// noteWaiting begins to look out, and begins anew when the holder is another.
func (m *member) noteWaiting(s *core.Sighting) {
	if s == nil || !m.keeper.host.watchful() {
		return
	}
	given := s.State == core.ObservedReleased || s.State == core.ObservedBroken
	m.lookout = &lookout{epoch: s.Epoch, given: given}
}

// noteLook takes a look of a waiter, after the machine has judged what it showed.
func (m *member) noteLook(r *request, ev *core.Event) {
	l := m.lookout
	if l == nil || ev.Outcome == core.OutcomeUnknown {
		return
	}
	switch kind := r.action.Kind; {
	case kind == core.ActionPut:
		l.claims = true
	case kind == core.ActionGet && m.protocol == core.ProtocolLastWriter && !l.claims:
		seen := machines.Inspect(m.keeper.host.clock.Now(), ev.Body, ev.Outcome == core.OutcomeNo, ev.Stamp)
		l.record = seen.State
	}
	if !m.gone && m.machine.String() == core.LeaseWaiting.String() {
		l.looked, l.claims = r.sent, false
	}
}

// fromDead reports whether nobody had given the lease back that was taken.
func (l *lookout) fromDead(protocol core.Protocol, token core.Epoch) bool {
	if protocol == core.ProtocolStrict { // a release is a version of its own, but not that of an old client
		return !l.given && l.epoch != 0 && token == l.epoch+1
	}
	return l.record == core.ObservedHeld || l.record == core.ObservedStale || l.record == core.ObservedCorrupt
}

// freedHere is when this Host had released what the member waits for; 0 if it had not.
func (m *member) freedHere() int64 {
	if m.lookout == nil {
		return 0
	}
	return m.lookout.freed
}

// noteHeld counts what is held from now on, and says so. One that was held before is
// a companion that has joined again, past its deadline.
func (k *keeper) noteHeld(m *member, a *core.Action) {
	if m.held {
		k.noteRenewed(m, m.deadline)
		return
	}
	m.counted = true
	if !k.host.watchful() {
		return
	}
	m.count(1)
	log, holder := k.host.log, Printable(string(a.Holder))
	switch m.kind() {
	case kindSession:
		log.Info("session opened", "session", holder, "ttl", m.beats.terms.ttl)
	case kindPermit:
		log.Debug("permit acquired", "name", m.name, "holder", holder, "token", uint64(a.Token), "weight", m.weight())
	case kindCompanion:
		log.Info("companion joined", "name", m.name, "protocol", m.protocol.String(), "holder", holder,
			"token", uint64(a.Token), "ttl", max(0, m.ttl))
	default:
		log.Info("lease acquired", "name", m.name, "protocol", m.protocol.String(), "holder", holder,
			"token", uint64(a.Token), "ttl", max(0, m.ttl), "from", k.noteHandOver(m, a.Token))
	}
}

// noteReleased says that what was held was given back.
func (k *keeper) noteReleased(m *member) {
	if !k.host.watchful() {
		return
	}
	log := k.host.log
	switch m.kind() {
	case kindPermit:
		log.Debug("permit released", "name", m.name, "holder", Printable(string(m.holder)))
	case kindCompanion:
		if m.farewell == core.EventRelease { // by its handle
			log.Info("lease released", "name", m.name, "token", uint64(m.token))
			return
		}
		log.Info("companion left", "name", m.name, "token", uint64(m.token))
	default:
		log.Info("lease released", "name", m.name, "token", uint64(m.token))
	}
}

// noteHandOver says from whom a lease has come, and counts how long that took.
func (k *keeper) noteHandOver(m *member, token core.Epoch) string {
	waiter, meter := m, k.host.meter
	if m.via != nil {
		waiter = m.via
	}
	l := waiter.lookout
	waiter.lookout = nil
	protocol := m.protocol.String()
	switch {
	case l == nil:
		return "free"
	case l.freed == 0 && l.fromDead(m.protocol, token):
		if meter != nil {
			meter.count(meter.takeovers, labels{protocol: protocol})
		}
		return "dead"
	}
	from, begun := "elsewhere", l.looked
	if l.freed != 0 {
		from, begun = "here", l.freed
	}
	if meter != nil {
		meter.seconds(meter.handover, meter.now()-begun, labels{protocol: protocol, from: from})
	}
	return from
}

// count adds to what is held, or takes from it.
func (m *member) count(sign int64) {
	meter := m.keeper.host.meter
	if meter == nil {
		return
	}
	switch kind := m.kind(); kind {
	case kindSession:
		meter.change(meter.sessions, sign, labels{})
	case kindPermit:
		meter.change(meter.permits, sign*m.weight(), labels{})
	default:
		meter.change(meter.leases, sign, labels{kind: kind, protocol: protocolText(m.protocol)})
	}
}

// uncount takes it back, once.
func (m *member) uncount() {
	if m.counted {
		m.counted = false
		m.count(-1)
	}
}

// weight is how many permits one of a semaphore takes.
func (m *member) weight() int64 { return int64(max(1, m.claim.first.Weight)) }

// noteLeft says that a Close did not have the time to release a lease.
func (k *keeper) noteLeft(m *member) {
	if m.invocation != nil {
		m = m.invocation.view
	}
	if m != nil && m.counted && m.kind() == kindLease {
		k.host.log.Warn(MessageLeftToExpire, "name", m.name, "token", uint64(m.token))
	}
}

// noteRenewed counts a good renewal, before which the deadline was another. A lease on
// a session has none of its own.
func (k *keeper) noteRenewed(m *member, deadline int64) {
	meter := k.host.meter
	if meter == nil || m.life != nil {
		return
	}
	l := labels{kind: m.kind(), protocol: protocolText(m.protocol)}
	ttl := m.ttl
	if m.beats != nil {
		ttl = m.beats.terms.ttl
	}
	if ttl > 0 && deadline != core.Never {
		share := float64(deadline-meter.now()) / float64(ttl)
		meter.left.Record(context.Background(), share, meter.of(l).record...)
	}
	l.outcome = "renewed"
	meter.count(meter.renewals, l)
}

// noteLost counts a loss, and says so. Who comes too late to join has lost nothing. A
// lease that is lost with its session is one of many, of which the session tells.
func (k *keeper) noteLost(m *member, why core.Reason, err error) {
	log, level := k.host.log, slog.LevelWarn
	if !m.counted {
		log.Info("the lease is not ours any more", "name", m.name, "reason", why.String(), "error", err)
		return
	}
	if m.life != nil && (why == core.ReasonUnreachable || why == core.ReasonExpired) {
		level = slog.LevelInfo
	}
	kind := m.kind()
	switch kind {
	case kindSession:
		log.Warn("session lost, and with it every lease on it", "reason", why.String())
	case kindPermit:
		log.Log(context.Background(), level, MessagePermitLost, "name", m.name, "reason", why.String(), "error", err)
	default:
		log.Log(context.Background(), level, MessageLeaseLost, "name", m.name, "reason", why.String(), "error", err)
	}
	if meter := k.host.meter; meter != nil {
		meter.count(meter.losses, labels{kind: kind, protocol: protocolText(m.protocol), reason: why.String()})
	}
}

// renews is whose renewal a request of a member is; nil if it is none.
func (m *member) renews(r *request) *member {
	of := m
	if m.invocation != nil && m.lane(r.action.Request) != ownLane {
		of = m.invocation.view
	}
	if of == nil || !of.counted || of.life != nil || m.leaving {
		return nil
	}
	return of
}

// outage is a time in which the store answers nothing.
type outage struct {
	failed int   // requests in a row
	since  int64 // Mono, of the first
	told   bool
}

// outageAfter is how many requests in a row must fail to be told: one that fails is
// nothing, it is tried again.
const outageAfter = 3

// noteAnswer takes the answer to a request that was still waited for.
func (k *keeper) noteAnswer(r *request, ev *core.Event) {
	o := &k.outage
	if ev.Outcome != core.OutcomeUnknown {
		if o.told {
			lasted := time.Duration(k.host.clock.Now().Mono - o.since)
			k.host.log.Info("the store answers again", "failed", o.failed, "lasted", lasted)
		}
		*o = outage{}
		return
	}
	if of, meter := r.from.renews(r), k.host.meter; of != nil && meter != nil {
		meter.count(meter.renewals, labels{kind: of.kind(), protocol: protocolText(of.protocol), outcome: "failed"})
	}
	failed := r.from.troubles().failed
	if isTransfer(r.action.Kind) || errors.Is(failed, errors.ErrUnsupported) {
		return // it may be what is transferred that failed; and to have no such request is no outage
	}
	if o.failed++; o.failed == 1 {
		o.since = k.host.clock.Now().Mono
	}
	if o.failed < outageAfter || o.told {
		return
	}
	o.told = true
	k.host.log.Warn(MessageOutage, "verb", r.action.Kind.String(), "class", ev.Class.String(), "error", failed)
}

// errSilent is why a request has failed that was given up at its limit.
var errSilent = errors.New("no answer within the request's limit")
