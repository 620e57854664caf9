package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/internal/telemetry"
	"github.com/mopslock/mopslock/host/store"
)

// driver is what the loop has of a Host.
type driver struct{ *Host }

// Config implements loop.Host.
func (d driver) Config() (core.Config, error) {
	unit, ok := d.units.ask(d.store.StampUnit)
	if !ok {
		return core.Config{}, &Error{Kind: NotAcquired, Reason: core.ReasonUnreachable, Class: core.ClassUnreachable}
	}
	_, watches := d.store.(store.Watcher)
	cfg := core.Config{
		Machine: core.MachineClient, StampUnit: unit, Boot: d.terms.boot, OwnStore: d.terms.own, Probes: true,
		Samples: d.terms.samples, Watches: watches, Remembers: d.memory.Remembers(),
		InFlight: uint64(d.terms.inFlight), Transfers: transfers,
		Host: d.terms.host, PID: d.terms.pid, TID: uint64(os.Getpid()),
	}
	if _, err := io.ReadFull(d.terms.rand, cfg.Seed[:]); err != nil {
		return cfg, fmt.Errorf("mopslock: host: no randomness for ids: %w", err)
	}
	return cfg, nil
}

// Ask implements loop.Host. It turns the store's answer into the core's three outcomes.
func (d driver) Ask(r *loop.Request) (core.Event, error) {
	event := core.Event{Kind: core.EventAnswer, Request: r.Action.Request, Outcome: core.OutcomeYes}
	err := d.send(r, &event)
	no := errors.Is(err, store.ErrAbsent) || errors.Is(err, store.ErrExists)
	// A store that is not there says no to exists as well (PROTOCOL T5).
	if none := r.Kind == core.ActionExists && event.Outcome == core.OutcomeNo; (err == nil || no) && !none {
		d.reached.Store(true)
	}
	creates := r.Kind == core.ActionCreate || r.Kind == core.ActionCreateResult
	switch {
	case err == nil:
	case isBroken(err): // which nothing mends
		event.Outcome, event.Class = core.OutcomeUnknown, core.ClassFull
	case (r.Kind == core.ActionGet || r.Overwrites) && errors.Is(err, store.ErrAbsent),
		creates && errors.Is(err, store.ErrExists),
		isUnkeepable(r.Kind, err):
		event.Outcome, event.Body = core.OutcomeNo, nil
	default:
		event.Outcome, event.Class, event.Body = core.OutcomeUnknown, store.ClassIn(err), nil
		if refused, ok := errors.AsType[*store.Error](err); ok { // by anybody's driver
			event.RetryAfter = min(max(0, refused.RetryAfter), store.MaxRetryAfter)
		}
		if errors.Is(err, errors.ErrUnsupported) {
			event.Class = core.ClassUnsupported
		}
	}
	return event, err
}

// Answered implements loop.Host.
func (d driver) Answered(r *loop.Request, ev *core.Event, err error) {
	if ev.Outcome != core.OutcomeUnknown || err == nil {
		return
	}
	if r.Action.Claim == 0 && r.Purpose == core.PurposeRenewal {
		d.recordRenewalFailed(telemetry.Holding{Kind: telemetry.Session, Protocol: core.ProtocolStrict})
	}
	if d.quiet {
		return
	}
	class := ev.Class
	d.loop.Later(func() { d.logFailed(r, class, err) })
}

// logFailed logs a request without an answer.
func (d driver) logFailed(r *loop.Request, class core.Class, err error) {
	log := d.log
	if broken, ok := errors.AsType[*store.PanicError](err); ok && !d.panicked.Swap(true) {
		log.Error("a store's driver panicked; this is told once", "error", err, "stack", string(broken.Stack))
	}
	if class == core.ClassUnsupported {
		class = core.ClassOther
	}
	log.Debug("request failed", "name", aboutOf(r.Claim), "verb", r.Kind.String(), "class", class.String(), "error", err)
}

// aboutOf is what a claim is about; "" for a session, and for the store itself.
func aboutOf(c loop.Claim) string {
	if named, ok := c.(interface{ about() string }); ok {
		return named.about()
	}
	return ""
}

// isUnkeepable reports that what is looked for is at a key which the store does not
// keep, so nobody can have put it there. Names are checked before: what leads to
// such a key is the id of a session in a record that somebody made up. Were that
// unknown, every look at the name would fail, and nobody could have it any more.
func isUnkeepable(verb core.ActionKind, err error) bool {
	return (verb == core.ActionGet || verb == core.ActionExists) && errors.Is(err, store.ErrKey)
}

// send has the store do what is asked, and puts what it found into the event.
func (d driver) send(r *loop.Request, event *core.Event) error {
	ctx, s := r.Ctx, d.verbs
	switch r.Kind {
	case core.ActionGet:
		object, err := s.Get(ctx, r.Key)
		event.Body, event.Stamp = object.Body, knownStamp(object.Stamp)
		return err
	case core.ActionPut:
		if r.Overwrites {
			ctx = store.Overwriting(ctx)
		}
		return s.Put(ctx, r.Key, r.Body, r.Type)
	case core.ActionCreate:
		return s.Create(ctx, r.Key, r.Body, r.Type)
	case core.ActionCreateResult, core.ActionPutResult:
		return d.transfer(r)
	case core.ActionExists:
		there, err := s.Exists(ctx, r.Key)
		if err == nil && !there {
			event.Outcome = core.OutcomeNo
		}
		return err
	case core.ActionList:
		page, more, err := s.List(ctx, r.Key, r.After, int(min(r.Count, core.MaxEntries)))
		event.Entries, event.More = entries(page, more)
		return err
	default:
		return s.Delete(ctx, r.Key)
	}
}

// maxListed bounds the bytes of a list's keys, so that its answer fits one
// message of the core; each entry costs entryCost more.
const (
	maxListed = core.MaxMessage - 4096
	entryCost = 24
)

// entries is as much of a page as fits into one answer.
func entries(page []store.Info, more bool) ([]core.Entry, bool) {
	out := make([]core.Entry, 0, min(len(page), core.MaxEntries))
	size := 0
	for i := range page {
		size += len(page[i].Key) + entryCost
		if len(out) == core.MaxEntries || size > maxListed {
			return out, true
		}
		out = append(out, core.Entry{Key: []byte(page[i].Key), Stamp: knownStamp(page[i].Stamp)})
	}
	return out, more
}

// knownStamp is a store's stamp that the core can reckon with, or 0 for none: an
// object may be dated anyhow, and that must not look like a fault of ours.
func knownStamp(stamp int64) int64 {
	if stamp > core.MaxClockRange || stamp < -core.MaxClockRange {
		return 0
	}
	return stamp
}

// Watch implements loop.Host.
func (d driver) Watch(key string, changed func()) (stop func(), ok bool) {
	stop, err := d.store.(store.Watcher).Watch(key, changed)
	if err != nil {
		d.log.Debug("no file events; polling alone", "key", key, "error", err)
	}
	return stop, err == nil
}

// Prompt implements loop.Host. In memory all calls end at once. On a disk that hangs, or a file
// system that is frozen for a backup, they do not.
func (d driver) Prompt(verb core.ActionKind) bool { return d.terms.inMemory && !loop.IsTransfer(verb) }

// Keep implements loop.Host.
func (d driver) Keep(name string, body []byte) { d.memory.Keep(name, body) }

// Say implements loop.Host: it takes what is said of a session, and of the store.
func (d driver) Say(a *core.Action) {
	s := d.heard.sessions[a.On]
	cause, _ := d.loop.Cause()
	if d.client != nil {
		d.client.say(a, cause)
	}
	switch a.Kind {
	case core.ActionHeld:
		s = &session{id: string(a.Holder), ttl: a.TTL}
		s.until.Store(a.At)
		d.heard.sessions[a.On] = s
		if !d.quiet {
			holding := s.holding()
			d.record(func(r *telemetry.Recorder) { r.Held(holding, 0, 0) })
		}
	case core.ActionRenewed:
		d.renewed(s, a.At)
	case core.ActionLost, core.ActionLeft:
		if s != nil {
			d.ended(s, a)
		}
		delete(d.heard.sessions, a.On)
	case core.ActionWarned:
		d.warn("", a, cause)
	case core.ActionOutage:
		if verb, class := a.Verb, a.Class; !d.heard.outage { // that writes fail as reads do is no news
			d.record(func(r *telemetry.Recorder) { r.Outage(verb, class, cause) })
		}
		d.heard.outage = true
	case core.ActionRecovered:
		d.heard.outage = false
		failed, took := a.Count, a.Took
		d.record(func(r *telemetry.Recorder) { r.Recovered(failed, took) })
	case core.ActionTried:
		honoured, seen := a.Reason == core.ReasonNone, string(a.Body)
		d.loop.Later(func() {
			d.log.Info("tried whether the store honours create-if-absent", "honoured", honoured, "seen", seen)
		})
	}
}

// holding is a session as telemetry has it.
func (s *session) holding() telemetry.Holding {
	return telemetry.Holding{Kind: telemetry.Session, Protocol: core.ProtocolStrict, Holder: s.id, TTL: s.ttl.Duration()}
}

func (d driver) renewed(s *session, until int64) {
	if d.telemetry.Counts() {
		holding, left := s.holding(), time.Duration(s.until.Load()-d.clock.Now().Mono)
		d.record(func(r *telemetry.Recorder) { r.Renewed(holding, left) })
	}
	s.until.Store(until)
}

func (d driver) ended(s *session, a *core.Action) {
	holding, why, lost := s.holding(), a.Reason, a.Kind == core.ActionLost
	d.record(func(r *telemetry.Recorder) {
		if lost {
			r.Lost(holding, why, nil)
		}
		r.Gone(holding)
	})
}

// warn logs what the client has to say of a claim that is none the worse for it, or of the
// store.
func (h *Host) warn(name string, a *core.Action, cause error) {
	log, key, class, seen := h.log, a.Key, a.Class.String(), string(a.Body)
	var tell func()
	switch a.Reason {
	case core.ReasonNoCreate:
		tell = func() {
			log.Warn("the store does not honour create-if-absent, so leases are kept by lastwriter, without a fencing token", "seen", seen)
		}
	case core.ReasonTTLDiffers:
		ttl := a.Observed.TTL
		tell = func() {
			log.Warn("this name is in use with another TTL, which can give it two holders; use one everywhere", "name", name, "their_ttl", ttl)
		}
	case core.ReasonCorruptTaken:
		tell = func() {
			log.Warn("an unreadable record has stood too long and is taken over", "name", name, "key", key)
		}
	case core.ReasonEmptied:
		tell = func() {
			log.Warn("what keeps a held name was removed from the store; keep cleaning and lifecycle rules off it", "name", name, "key", key)
		}
	case core.ReasonMixed:
		holder := ""
		if a.Observed != nil {
			holder = Printable(string(a.Observed.Holder))
		}
		tell = func() {
			log.Warn("an old client holds this name by lock.json, beside a strict lease; use one protocol for a name", "name", name, "their_holder", holder)
		}
	default:
		tell = func() {
			log.Info("no session can be had", "error", cause)
		}
		if name != "" {
			tell = func() {
				log.Warn("the store does not take a result; it is tried again", "name", name, "class", class, "error", cause)
			}
		}
	}
	h.loop.Later(tell)
}

// Gone implements loop.Host. Claims that stand on a session know its deadline.
func (d driver) Gone(err error) {
	for _, s := range d.heard.sessions {
		holding := s.holding()
		d.record(func(r *telemetry.Recorder) { r.Gone(holding) })
	}
	clear(d.heard.sessions)
	if d.client != nil {
		d.client.gone(err)
	}
	if err != nil {
		d.loop.Later(func() {
			d.log.Error("the engine failed; what is held is no longer renewed", "error", err)
		})
	}
}
