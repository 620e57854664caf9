// Package outbox keeps the requests of one process to one store: in which order they are
// sent, how many at once, and what has become of them. It knows no claim and no session.
package outbox

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/alarms"
	"github.com/mopslock/mopslock/core/internal/base"
)

// The defaults of a Config.
const (
	defaultInFlight  = 64
	defaultTransfers = 4
	// outageAfter is how many requests in a row must fail before that is told. After a
	// single failure the request is simply tried again.
	outageAfter = 3
)

// Outbox has requests that wait for a slot, or because the store asks to be left alone; the
// others are under way.
//
// A quarter of the slots, and one at the least, is kept for beats: what keeps a claim must not wait
// behind polls, however many of these hang. So there are two slots at the least.
type Outbox struct {
	Actions `state:"scratch: of the latest Step"`
	alarms  *alarms.Alarms
	table   table

	slots     [2]int // for beats and the usual together, and for transfers
	usual     int    // the most of the usual
	busy      [lanes]int
	ready     [lanes][]*Queued
	restUntil int64 // Mono: the store asked to be left alone until then
	outages   [base.Directions]outage
}

// outage is a time in which the store answers no reads, or no writes.
type outage struct {
	failed uint64 // requests in a row
	since  int64  `state:"exact: it is only told to people"` // Mono of the first
	told   bool   // that there is one
}

// Lane says how urgent a request is.
type Lane uint8

// The lanes.
const (
	Beat Lane = iota // keeps a claim
	Usual
	Transfer
	lanes
)

// Owner is who asks for requests; it embeds a Sender.
type Owner interface {
	core.Part
	Sending() *Sender
}

// Sender is what an owner has under way.
type Sender struct {
	Mask    core.RequestID    `state:"fixed: it follows from the machine"` // of the owner's own ids: which of its requests may be under way together
	Direct  bool              // it does not wait for a store that asks to be left alone
	flights [4]core.RequestID // by the owner's id, masked; 0 is none
}

// Sending implements Owner.
func (s *Sender) Sending() *Sender { return s }

// Flight is a request that was not answered yet.
type Flight struct {
	Owner      Owner          // nil: nobody wants its answer
	OwnersID   core.RequestID `state:"of Owner"` // the owner's own id
	Verb       core.ActionKind
	Asked      int64 `state:"exact: it is only told to people"` // Mono
	id         core.RequestID
	overwrites bool
	ended      bool // the host was asked to end it, and its answer is wanted
	lane       Lane
	queued     *Queued // nil: it is under way
}

// Queued is a request that was not sent yet. Its limit counts from when it was asked for.
type Queued struct {
	alarms.Alarm
	id       core.RequestID
	action   core.Action
	deadline int64
	rests    bool // until its alarm rings
	over     bool
}

// Init makes an empty outbox. It sets alarms that ring for *Queued.
func (o *Outbox) Init(cfg *core.Config, alarms *alarms.Alarms) {
	o.alarms = alarms
	o.slots = [2]int{int(cfg.InFlight), int(cfg.Transfers)}
	if cfg.InFlight == 0 {
		o.slots[0] = defaultInFlight
	}
	if cfg.Transfers == 0 {
		o.slots[1] = defaultTransfers
	}
	o.usual = o.slots[0] - max(1, o.slots[0]/4)
	o.table.flights = make([]Flight, 16)
	o.restUntil = -core.MaxClockRange
}

// RestUntil is the Mono until which the store asked to be left alone.
func (o *Outbox) RestUntil() int64 { return o.restUntil }

// IsEmpty reports whether nothing is waited for.
func (o *Outbox) IsEmpty() bool { return o.table.isEmpty() }

// Send takes a request of an owner for a claim, and gives up the one that it replaces. It is sent now, or waits.
func (o *Outbox) Send(of Owner, lane Lane, claim uint64, a *core.Action, now int64) {
	s := of.Sending()
	at := &s.flights[a.Request&s.Mask]
	o.abandon(of, *at)
	f := Flight{Owner: of, OwnersID: a.Request, Verb: a.Kind, Asked: now, overwrites: a.Overwrites, lane: lane}
	deadline := now + int64(a.Limit)
	begins := o.begins(&f, now, deadline, a.Limit)
	if begins <= now && len(o.ready[lane]) == 0 && o.hasSlot(lane) {
		*at = o.table.add(&f)
		o.busy[lane]++
		to := o.Carry(a)
		to.Request, to.Claim = *at, claim
		return
	}
	q := &Queued{action: *a, deadline: deadline}
	q.action.Body = append([]byte(nil), a.Body...) // the owner writes the next one over it
	q.action.Claim, q.action.Request = claim, 0
	f.queued = q
	*at = o.table.add(&f)
	if q.id = *at; begins > now {
		o.rest(q, begins)
		return
	}
	o.wait(q, lane)
}

// rest puts a request off, since the store asks to be left alone.
func (o *Outbox) rest(q *Queued, until int64) {
	q.rests = true
	o.alarms.Arm(&q.Alarm, q, until)
}

// wait puts a request behind those that wait for a slot of its lane.
func (o *Outbox) wait(q *Queued, lane Lane) {
	q.rests = false
	o.ready[lane] = append(o.ready[lane], q)
	o.alarms.Arm(&q.Alarm, q, q.deadline)
}

// begins is when a request may be sent, of a store that asks to be left alone. Limits come
// from deadlines: a holder that does not send in time loses a claim that the store would
// have kept. So no request waits for more than half of its limit.
func (o *Outbox) begins(f *Flight, now, deadline int64, limit core.Duration) int64 {
	if o.restUntil <= now || f.Owner.Sending().Direct {
		return now
	}
	return min(o.restUntil, deadline-int64(limit/2))
}

// hasSlot reports whether a request of this lane may be sent.
func (o *Outbox) hasSlot(lane Lane) bool {
	both := o.busy[Beat] + o.busy[Usual]
	switch lane {
	case Transfer:
		return o.busy[Transfer] < o.slots[1]
	case Usual:
		return o.busy[Usual] < o.usual && both < o.slots[0]
	}
	return both < o.slots[0]
}

// HasNext reports whether a request that waits may be sent.
func (o *Outbox) HasNext() bool { return o.next() != nil }

// next is the first request that waits and may be sent, beats first, or nil.
func (o *Outbox) next() *Queued {
	for lane := range lanes {
		for len(o.ready[lane]) > 0 && o.ready[lane][0].over {
			o.unready(lane)
		}
		if len(o.ready[lane]) > 0 && o.hasSlot(lane) {
			return o.ready[lane][0]
		}
	}
	return nil
}

// unready takes the first of a lane out, which the lane's room keeps no longer.
func (o *Outbox) unready(lane Lane) {
	o.ready[lane][0] = nil
	o.ready[lane] = o.ready[lane][1:]
}

// SendNext sends the first request that waits. If it has waited too long, that is its answer.
func (o *Outbox) SendNext(now int64) (late *Flight) {
	q := o.next()
	f := o.table.find(q.id)
	o.alarms.Disarm(&q.Alarm)
	if q.deadline <= now {
		return o.Ring(q)
	}
	o.unready(f.lane)
	if begins := o.begins(f, now, q.deadline, q.action.Limit); begins > now {
		o.rest(q, begins)
		return nil
	}
	f.queued = nil
	o.busy[f.lane]++
	to := o.Carry(&q.action)
	to.Request, to.Limit = q.id, core.Duration(q.deadline-now)
	return nil
}

// Ring takes that a request has rested long enough, or has waited too long for a slot: that is its answer.
func (o *Outbox) Ring(q *Queued) (late *Flight) {
	f := o.table.find(q.id)
	if q.rests {
		o.wait(q, f.lane)
		return nil
	}
	q.over = true
	over := o.forget(f)
	return &over
}

// Abandon gives up all requests of an owner, which wants no answer any more. Those under way keep
// their slots until they are answered.
func (o *Outbox) Abandon(of Owner) {
	s := of.Sending()
	for i, id := range s.flights {
		o.abandon(of, id)
		s.flights[i] = 0
	}
}

func (o *Outbox) abandon(of Owner, id core.RequestID) {
	f := o.table.find(id)
	if f == nil || f.Owner != of {
		return
	}
	f.Owner, f.OwnersID = nil, 0
	if q := f.queued; q != nil {
		q.over = true
		o.alarms.Disarm(&q.Alarm)
		*f = Flight{}
		return
	}
	o.Emit(core.ActionAbandon).Request = f.id
}

// AbandonTransfer gives up an owner's transfer, if it has one among its requests with this id of its own.
func (o *Outbox) AbandonTransfer(of Owner, own core.RequestID) {
	if f := o.transfer(of, own); f != nil {
		of.Sending().flights[own] = 0
		o.abandon(of, f.id)
	}
}

// EndTransfer has the host end an owner's transfer. It is answered all the same: a put could still land.
func (o *Outbox) EndTransfer(of Owner, own core.RequestID, now int64) {
	f := o.transfer(of, own)
	if f == nil {
		return
	}
	f.ended = true
	if q := f.queued; q != nil {
		q.rests = false // its alarm is its answer
		o.alarms.Arm(&q.Alarm, q, now)
		return
	}
	o.Emit(core.ActionAbandon).Request = f.id
}

// transfer is an owner's that was not ended, or nil.
func (o *Outbox) transfer(of Owner, own core.RequestID) *Flight {
	f := o.table.find(of.Sending().flights[own])
	if f == nil || f.lane != Transfer || f.ended {
		return nil
	}
	return f
}

// forget frees the place of a flight, and returns what it was.
func (o *Outbox) forget(f *Flight) Flight {
	was := *f
	if f.Owner != nil {
		s := f.Owner.Sending()
		s.flights[f.OwnersID&s.Mask] = 0
	}
	*f = Flight{}
	return was
}

// Answer takes the store's answer to a request, which Check has found good.
func (o *Outbox) Answer(ev *core.Event, now int64) Flight {
	f := o.forget(o.table.find(ev.Request))
	o.busy[f.lane]--
	if ev.RetryAfter > 0 {
		o.restUntil = max(o.restUntil, now+int64(min(ev.RetryAfter, core.MaxTTL)))
	}
	o.followOutage(&f, ev, now)
	return f
}

// followOutage tells of an outage when it begins, once, and of its end. A transfer says
// nothing of the store: it may be what is transferred that failed. That there is no such
// request is no outage.
func (o *Outbox) followOutage(f *Flight, ev *core.Event, now int64) {
	out := &o.outages[base.DirectionOf(f.Verb)]
	if ev.Outcome != core.OutcomeUnknown {
		was := *out
		*out = outage{}
		if was.told && !o.outages[base.Reads].told && !o.outages[base.Writes].told {
			a := o.Emit(core.ActionRecovered)
			a.Count, a.Took = was.failed, core.Duration(now-was.since)
		}
		return
	}
	if f.lane == Transfer || ev.Class == core.ClassUnsupported {
		return
	}
	if out.failed++; out.failed == 1 {
		out.since = now
	}
	if out.failed >= outageAfter && !out.told {
		out.told = true
		a := o.Emit(core.ActionOutage)
		a.Verb, a.Class, a.Count = f.Verb, ev.Class, out.failed
	}
}
