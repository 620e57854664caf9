package host

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// request is a store request that a machine asked for.
type request struct {
	from   *task
	ctx    context.Context
	cancel context.CancelFunc
	action core.Action
	source Source // of a transfer
	sent   int64  // Mono, if somebody wants to know
}

// queue is requests that wait for a slot, first come first served.
type queue struct {
	ready  []*request
	slots  int
	waking *time.Timer // while the store wants to be left alone
}

// queueOf is where a request waits.
func (l *loop) queueOf(r *request) *queue {
	if isTransfer(r.action.Kind) {
		return &l.large
	}
	return &l.small
}

// request starts a store request, or lets it wait for a slot. Its limit counts
// from now either way. The machine has given up any earlier one.
func (l *loop) request(t *task, a core.Action) {
	lane := t.lane(a.Request)
	t.cancelRequest(lane)
	r := &request{from: t, action: a}
	r.action.Body = bytes.Clone(a.Body) // the machine writes the next one over it
	r.action.Observed = nil
	if t.invocation != nil {
		r.source = t.invocation.source
	}
	ctx, cancel := context.WithTimeout(l.ctx, a.Limit)
	// At its limit it is answered, whether or not it had a slot and whether or
	// not the store obeys ctx: a caller must not hang on a dead mount. A second
	// answer, from the store after all, changes nothing.
	stop := context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			l.post(message{do: func() {
				if r.isAwaited() {
					t.makeFailures().lastError = errSilent // and not what was said of an earlier one
				}
				l.answer(r, unanswered(a.Request))
			}})
		}
	})
	r.ctx, r.cancel = ctx, func() { stop(); cancel() }
	t.inFlight[lane] = r
	q := l.queueOf(r)
	if len(q.ready) > 2*lanes*(l.count+len(l.services)) { // while all slots hang, given-up requests would pile up
		q.ready = slices.DeleteFunc(q.ready, func(old *request) bool { return old.ctx.Err() != nil })
	}
	q.ready = append(q.ready, r)
	l.startReady(q)
}

// isAwaited reports whether the machine has no answer yet, and still wants one.
func (r *request) isAwaited() bool { return r.from.inFlight[r.from.lane(r.action.Request)] == r }

// errSilent is why a request has failed that was given up at its limit.
var errSilent = errors.New("no answer within the request's limit")

func unanswered(id core.RequestID) core.Event {
	return core.Event{
		Kind: core.EventAnswer, Request: id,
		Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable,
	}
}

// answer gives a machine the answer to its request.
func (l *loop) answer(r *request, event core.Event) {
	t := r.from
	if r.isAwaited() {
		t.inFlight[t.lane(r.action.Request)] = nil // its body is not kept until the next one
		l.recordAnswer(r, &event)
	}
	if t.gone {
		return
	}
	if t.shared != nil {
		t.shared.answered(&r.action, &event)
	}
	l.step(t, event)
	t.recordRead(r, &event)
}

func (l *loop) startReady(q *queue) {
	if l.over {
		return
	}
	if now := time.Now(); now.Before(l.retryAfter.until) {
		l.startDue(q, now)
		return
	}
	for q.slots > 0 && len(q.ready) > 0 {
		r := q.ready[0]
		q.ready[0] = nil
		q.ready = q.ready[1:]
		if r.ctx.Err() != nil {
			continue // given up, or answered at its limit
		}
		l.start(q, r)
	}
}

// startDue is startReady while the store wants to be left alone.
func (l *loop) startDue(q *queue, now time.Time) {
	next := l.retryAfter.until
	q.ready = slices.DeleteFunc(q.ready, func(r *request) bool {
		deadline, _ := r.ctx.Deadline()
		begins := l.retryAfter.begins(deadline, r.action.Limit)
		switch {
		case r.ctx.Err() != nil:
			return true // given up, or answered at its limit
		case begins.After(now):
			if begins.Before(next) {
				next = begins
			}
			return false
		case q.slots == 0:
			return false // the request that gives a slot back comes by here
		}
		l.start(q, r)
		return true
	})
	if len(q.ready) == 0 {
		return
	}
	if q.waking != nil {
		q.waking.Stop()
	}
	q.waking = time.AfterFunc(next.Sub(now), func() {
		l.post(message{do: func() { l.startReady(q) }})
	})
}

func (l *loop) start(q *queue, r *request) {
	q.slots--
	r.sent = l.instantOf(r.from)
	l.io.Add(1)
	go l.perform(r)
}

// perform does one request and posts its answer.
func (l *loop) perform(r *request) {
	defer l.io.Done()
	event, err := l.ask(r)
	r.cancel()
	l.post(message{do: func() {
		l.retryAfter.observe(err)
		q := l.queueOf(r)
		q.slots++
		l.startReady(q)
		if event.Outcome == core.OutcomeUnknown && r.isAwaited() {
			r.from.makeFailures().lastError = err
		}
		if isTransfer(r.action.Kind) {
			r.from.invocation.transferred(r, event.Outcome, err)
		}
		l.answer(r, event)
	}})
}

// ask turns the store's answer into the core's three outcomes.
func (l *loop) ask(r *request) (core.Event, error) {
	a := &r.action
	event := core.Event{Kind: core.EventAnswer, Request: a.Request, Outcome: core.OutcomeYes}
	err := l.send(r, &event)
	no := errors.Is(err, store.ErrAbsent) || errors.Is(err, store.ErrExists)
	// A store that is not there says no to exists as well (PROTOCOL T5).
	if none := a.Kind == core.ActionExists && event.Outcome == core.OutcomeNo; (err == nil || no) && !none {
		l.host.reached.Store(true)
		if !isRead(a.Kind) {
			l.host.written.Store(true)
		}
	}
	creates := a.Kind == core.ActionCreate || a.Kind == core.ActionCreateResult
	switch {
	case err == nil:
	case isBroken(err): // which nothing mends
		event.Outcome, event.Class = core.OutcomeUnknown, core.ClassFull
	case (a.Kind == core.ActionGet || a.Overwrites) && errors.Is(err, store.ErrAbsent),
		creates && errors.Is(err, store.ErrExists),
		isUnkeepable(a.Kind, err):
		event.Outcome, event.Body = core.OutcomeNo, nil
	default:
		event.Outcome, event.Class, event.Body = core.OutcomeUnknown, store.ClassIn(err), nil
		if broken, ok := errors.AsType[*store.PanicError](err); ok && !l.host.panicked.Swap(true) {
			l.host.log.Error("a store's driver panicked; this is told once", "error", err, "stack", string(broken.Stack))
		}
		if !errors.Is(r.ctx.Err(), context.Canceled) { // nobody wanted it any more
			l.host.log.Debug("request failed", "name", r.from.name, "verb", a.Kind.String(),
				"class", event.Class.String(), "error", err)
		}
	}
	return event, err
}

func isRead(verb core.ActionKind) bool {
	return verb == core.ActionGet || verb == core.ActionExists || verb == core.ActionList
}

// isUnkeepable reports that what is looked for is at a key which the store does not
// keep, so nobody can have put it there. Names are checked before: what leads to
// such a key is the id of a session in a record that somebody made up. Were that
// unknown, every look at the name would fail, and nobody could have it any more.
func isUnkeepable(verb core.ActionKind, err error) bool {
	return (verb == core.ActionGet || verb == core.ActionExists) && errors.Is(err, store.ErrKey)
}

// send has the store do what is asked, and puts what it found into the event.
func (l *loop) send(r *request, event *core.Event) error {
	a, s := &r.action, l.host.verbs
	switch a.Kind {
	case core.ActionGet:
		object, err := s.Get(r.ctx, a.Key)
		event.Body, event.Stamp = object.Body, knownStamp(object.Stamp)
		return err
	case core.ActionPut:
		ctx := r.ctx
		if a.Overwrites {
			ctx = store.Overwriting(ctx)
		}
		return s.Put(ctx, a.Key, a.Body, a.Type)
	case core.ActionCreate:
		return s.Create(r.ctx, a.Key, a.Body, a.Type)
	case core.ActionCreateResult, core.ActionPutResult:
		return l.transfer(r)
	case core.ActionExists:
		there, err := s.Exists(r.ctx, a.Key)
		if err == nil && !there {
			event.Outcome = core.OutcomeNo
		}
		return err
	case core.ActionList:
		page, more, err := s.List(r.ctx, a.Key, a.After, int(min(a.Count, core.MaxEntries)))
		event.Entries, event.More = entries(page, more)
		return err
	default:
		return s.Delete(r.ctx, a.Key)
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
