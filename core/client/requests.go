package client

import (
	"strconv"

	"github.com/mopslock/mopslock/core"
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

// requests are those that machines asked for: some wait for a slot, or because the store
// asks to be left alone; the others are under way.
//
// A quarter of the slots, and one at the least, is kept for beats: what keeps a claim must not wait
// behind polls, however many of these hang. So there are two slots at the least.
type requests struct {
	issued core.RequestID
	table  []flight // at id % len; len is a power of two

	slots     [2]int // for beats and the usual together, and for transfers
	usual     int    // the most of the usual
	busy      [laneKinds]int
	ready     [laneKinds][]*queued
	restUntil int64 // Mono: the store asked to be left alone until then
	outages   [base.Directions]outage
}

// outage is a time in which the store answers no reads, or no writes.
type outage struct {
	failed int  // requests in a row
	told   bool // that there is one
}

// laneKind says how urgent a request is.
type laneKind uint8

const (
	laneBeat laneKind = iota // keeps a claim
	laneUsual
	laneTransfer
	laneKinds
)

// flight is a request that was not answered yet. id 0 is none.
type flight struct {
	id         core.RequestID
	unit       *unit // nil: nobody wants its answer
	inner      core.RequestID
	verb       core.ActionKind
	overwrites bool
	lane       laneKind
	asked      int64 // Mono
	cleanup    bool
	ended      bool    // the host was asked to end it, and its answer is wanted
	queued     *queued // nil: it is under way
}

// queued is a request that was not sent yet. Its limit counts from when it was asked for.
type queued struct {
	alarm
	id       core.RequestID
	action   core.Action
	deadline int64
	rests    bool // until its alarm rings
	over     bool
}

func (r *requests) init(cfg *core.Config) {
	r.slots = [2]int{int(cfg.InFlight), int(cfg.Transfers)}
	if cfg.InFlight == 0 {
		r.slots[0] = defaultInFlight
	}
	if cfg.Transfers == 0 {
		r.slots[1] = defaultTransfers
	}
	r.usual = r.slots[0] - max(1, r.slots[0]/4)
	r.table = make([]flight, 16)
	r.restUntil = -core.MaxClockRange
}

func (r *requests) at(id core.RequestID) *flight { return &r.table[int(id)&(len(r.table)-1)] }

// find is the flight of an id, or nil.
func (r *requests) find(id core.RequestID) *flight {
	if f := r.at(id); id != 0 && f.id == id {
		return f
	}
	return nil
}

// add gives a flight the next id whose place is free. The table grows before it is half full.
func (r *requests) add(f flight) core.RequestID {
	used := 0
	for {
		r.issued++
		to := r.at(r.issued)
		if to.id == 0 {
			f.id = r.issued
			*to = f
			return f.id
		}
		if used++; used > len(r.table)/2 {
			r.grow()
		}
	}
}

func (r *requests) grow() {
	old := r.table
	r.table = make([]flight, 2*len(old))
	for i := range old {
		if old[i].id != 0 {
			*r.at(old[i].id) = old[i]
		}
	}
}

func (r *requests) isEmpty() bool {
	for i := range r.table {
		if r.table[i].id != 0 {
			return false
		}
	}
	return true
}

// check is what is wrong with an answer, or "".
func (r *requests) check(ev *core.Event) (core.ErrorCode, string) {
	f := r.find(ev.Request)
	switch {
	case f == nil || f.queued != nil:
		return core.ErrorRequest, "answer to request " + strconv.FormatUint(uint64(ev.Request), 10) + ", which is not under way"
	case ev.Outcome < core.OutcomeYes || ev.Outcome > core.OutcomeUnknown:
		return core.ErrorEvent, "answer without an outcome"
	case ev.Class > core.ClassUnsupported:
		return core.ErrorEvent, "answer of an unknown class"
	case ev.Outcome == core.OutcomeNo && (f.verb == core.ActionPut && !f.overwrites || f.verb == core.ActionPutResult || f.verb == core.ActionList || f.verb == core.ActionDelete):
		return core.ErrorEvent, "a " + f.verb.String() + " cannot be answered no"
	case ev.Stamp > core.MaxClockRange || ev.Stamp < -core.MaxClockRange:
		return core.ErrorEvent, "answer with a stamp out of range"
	case len(ev.Entries) > core.MaxEntries:
		return core.ErrorEvent, "answer with more than 256 entries"
	case ev.RetryAfter < 0:
		return core.ErrorEvent, "answer with a negative retry_after"
	}
	for i := range ev.Entries {
		if s := ev.Entries[i].Stamp; s > core.MaxClockRange || s < -core.MaxClockRange {
			return core.ErrorEvent, "answer with a stamp out of range"
		}
	}
	return 0, ""
}

// send takes a request of a unit's machine, which has given up the one before.
func (c *Client) send(u *unit, a *core.Action) {
	lane := int(a.Request & u.lanes)
	c.abandon(u, lane)
	kind := laneUsual
	switch {
	case a.Kind == core.ActionCreateResult || a.Kind == core.ActionPutResult:
		kind = laneTransfer
	case u.owner.keeps():
		kind = laneBeat
	}
	f := flight{unit: u, inner: a.Request, verb: a.Kind, overwrites: a.Overwrites, lane: kind}
	u.flights[lane] = c.request(f, a, u.claim)
}

// request sends one now, or lets it wait.
func (c *Client) request(f flight, a *core.Action, of uint64) core.RequestID {
	r := &c.requests
	f.asked = c.now.Mono
	begins := c.begins(&f, c.now.Mono+int64(a.Limit), a.Limit)
	if begins <= c.now.Mono && len(r.ready[f.lane]) == 0 && r.hasSlot(f.lane) {
		id := r.add(f)
		r.busy[f.lane]++
		to := c.carry(a)
		to.Request, to.Claim = id, of
		return id
	}
	q := &queued{action: *a, deadline: c.now.Mono + int64(a.Limit)}
	q.action.Body = append([]byte(nil), a.Body...) // the machine writes the next one over it
	q.action.Claim = of
	f.queued = q
	q.id = r.add(f)
	if begins > c.now.Mono {
		q.rests = true
		c.alarms.arm(&q.alarm, q, begins)
		return q.id
	}
	r.ready[f.lane] = append(r.ready[f.lane], q)
	c.alarms.arm(&q.alarm, q, q.deadline)
	return q.id
}

// begins is when a request may be sent, of a store that asks to be left alone. Limits come
// from deadlines: a holder that does not send in time loses a claim that the store would
// have kept. So no request waits for more than half of its limit.
func (c *Client) begins(f *flight, deadline int64, limit core.Duration) int64 {
	until := c.requests.restUntil
	if until <= c.now.Mono || f.unit != nil && f.unit.direct {
		return c.now.Mono
	}
	return min(until, deadline-int64(limit/2))
}

// hasSlot reports whether a request of this lane may be sent.
func (r *requests) hasSlot(lane laneKind) bool {
	both := r.busy[laneBeat] + r.busy[laneUsual]
	switch lane {
	case laneTransfer:
		return r.busy[laneTransfer] < r.slots[1]
	case laneUsual:
		return r.busy[laneUsual] < r.usual && both < r.slots[0]
	}
	return both < r.slots[0]
}

// onAlarm implements alarmHandler: it has rested long enough, or waited too long for a slot.
func (q *queued) onAlarm(c *Client) {
	r := &c.requests
	f := r.find(q.id)
	if q.rests {
		q.rests = false
		r.ready[f.lane] = append(r.ready[f.lane], q)
		c.alarms.arm(&q.alarm, q, q.deadline)
		return
	}
	q.over = true
	ev := core.Event{Kind: core.EventAnswer, Request: f.inner, Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable}
	u := f.unit
	if f.cleanup {
		c.tidying--
	}
	c.forgetFlight(f)
	if u != nil {
		c.step(u, ev)
	}
}

// next is the first request that waits and may be sent, beats first, or nil.
func (r *requests) next() *queued {
	for lane := range laneKinds {
		for len(r.ready[lane]) > 0 && r.ready[lane][0].over {
			r.ready[lane] = rest(r.ready[lane])
		}
		if len(r.ready[lane]) > 0 && r.hasSlot(lane) {
			return r.ready[lane][0]
		}
	}
	return nil
}

// start sends a request that has waited.
func (c *Client) start(q *queued) {
	r := &c.requests
	f := r.find(q.id)
	c.alarms.disarm(&q.alarm)
	if q.deadline <= c.now.Mono {
		q.onAlarm(c)
		return
	}
	if begins := c.begins(f, q.deadline, q.action.Limit); begins > c.now.Mono {
		r.ready[f.lane] = rest(r.ready[f.lane])
		q.rests = true
		c.alarms.arm(&q.alarm, q, begins)
		return
	}
	q.over, f.queued = true, nil
	r.busy[f.lane]++
	to := c.carry(&q.action)
	to.Request, to.Limit = q.id, core.Duration(q.deadline-c.now.Mono)
}

// abandon gives up a request of a unit. Under way, it keeps its slot until it is answered.
func (c *Client) abandon(u *unit, lane int) {
	f := c.requests.find(u.flights[lane])
	u.flights[lane] = 0
	if f == nil || f.unit != u {
		return
	}
	f.unit = nil
	if q := f.queued; q != nil {
		q.over = true
		c.alarms.disarm(&q.alarm)
		*f = flight{}
		return
	}
	c.emit(core.ActionAbandon).Request = f.id
}

func (c *Client) forgetFlight(f *flight) {
	if f.unit != nil {
		f.unit.flights[int(f.inner&f.unit.lanes)] = 0
	}
	*f = flight{}
}

// answer takes the store's answer to a request.
func (c *Client) answer(ev *core.Event) {
	r := &c.requests
	at := r.find(ev.Request)
	f := *at
	u := f.unit
	if r.busy[f.lane]--; f.cleanup {
		c.tidying--
	}
	c.forgetFlight(at)
	if ev.RetryAfter > 0 {
		r.restUntil = max(r.restUntil, c.now.Mono+int64(min(ev.RetryAfter, core.MaxTTL)))
	}
	c.followOutage(&f, ev)
	if u == nil {
		return
	}
	ev.Request, ev.RetryAfter = f.inner, 0
	if ev.Class == core.ClassUnsupported {
		if u != c.store.asking {
			ev.Class = core.ClassOther
		}
	}
	c.feed(u, ev)
	if cl := claimOf(u.owner); cl != nil {
		c.follow(cl, &f, ev)
	}
}

// followOutage tells of an outage when it begins, once, and of its end. A transfer says
// nothing of the store: it may be what is transferred that failed. That there is no such
// request is no outage.
func (c *Client) followOutage(f *flight, ev *core.Event) {
	r := &c.requests
	o := &r.outages[base.DirectionOf(f.verb)]
	if ev.Outcome != core.OutcomeUnknown {
		c.store.reach.Note(ev, base.Flight{Verb: f.verb}, c.now.Mono)
		told := o.told
		*o = outage{}
		if told && !r.outages[base.Reads].told && !r.outages[base.Writes].told {
			c.emit(core.ActionRecovered)
		}
		return
	}
	if f.lane == laneTransfer || ev.Class == core.ClassUnsupported {
		return
	}
	if o.failed++; o.failed >= outageAfter && !o.told {
		o.told = true
		c.emit(core.ActionOutage).Class = ev.Class
	}
}
