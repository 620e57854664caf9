package resolve

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// Patience is how long a question goes on that the store does not answer.
type Patience struct {
	Wait    core.Duration // the caller's
	Reach   base.Reach    // what is known of the store from before
	begun   int64
	sent    int64 // Mono of the latest request
	retries int
}

func (p *Patience) begin(now int64) {
	p.begun = now
	within := Silence
	if p.Wait > 0 {
		within = min(within, p.Wait)
	}
	p.Reach.Expect(now, within)
}

// note takes an answer to a request.
func (p *Patience) note(now int64, verb core.ActionKind, outcome core.Outcome, class core.Class) {
	p.Reach.Note(&core.Event{Outcome: outcome, Class: class}, base.Flight{Verb: verb, Sent: p.sent}, now)
}

// unknown says what to do after a request whose outcome is unknown: try again at an
// instant, or give up for a reason (PROTOCOL T5).
func (p *Patience) unknown(now int64, verb core.ActionKind, class core.Class, aside bool) (again int64, reason core.Reason) {
	p.note(now, verb, core.OutcomeUnknown, class)
	if reason := p.ended(now); reason != core.ReasonNone {
		return 0, reason
	}
	p.retries = min(p.retries+1, mostDoubles)
	again = now + int64(retryFirst)<<p.retries
	if class == core.ClassThrottled && !aside {
		again = max(again, now+int64(BetweenWrites))
	}
	if p.Wait > 0 {
		again = min(again, p.begun+int64(p.Wait))
	}
	if by := p.Reach.By(p.Wait == 0); by > now {
		again = min(again, by)
	}
	return again, core.ReasonNone
}

// ended is why it is given up by now, or none.
func (p *Patience) ended(now int64) core.Reason {
	over := p.Wait > 0 && now >= p.begun+int64(p.Wait)
	for _, d := range [...]base.Direction{base.Writes, base.Reads} {
		if reason := p.Reach.Ends(d, now, p.Wait == 0); reason != core.ReasonNone {
			return reason
		}
		if over && p.Reach.IsSilent(d) {
			return p.Reach.Reason(d)
		}
	}
	return core.ReasonNone
}

// limit bounds a request: who waits less than Silence, or has less left of its wait,
// must not wait for a silent store any longer than that.
func (p *Patience) limit(now int64) core.Duration {
	p.sent = now
	if p.Wait <= 0 {
		return Silence
	}
	return max(core.Second/1000, min(Silence, p.Wait-core.Duration(now-p.begun)))
}

// ExistsQuery asks whether a name has an object with a key.
type ExistsQuery struct {
	base.Quiet
	Patience
	Key    string
	issued core.RequestID
	sent   bool
	wakeAt int64 `state:"due"` // Mono
	done   bool
	out    []core.Action `state:"scratch: of the latest Step"`
}

// Step implements core.Machine. The end is seen, with the answer as Count, or refused.
func (q *ExistsQuery) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	q.out = q.out[:0]
	switch {
	case q.done:
	case ev.Kind == core.EventBegin:
		q.begin(now.Mono)
		q.ask(now)
	case ev.Kind == core.EventAnswer && ev.Outcome == core.OutcomeUnknown:
		q.sent = false
		again, reason := q.unknown(now.Mono, core.ActionExists, ev.Class, false)
		if q.wakeAt = again; reason != core.ReasonNone {
			q.refuse(reason)
		}
	case ev.Kind == core.EventAnswer:
		q.sent, q.done = false, true
		a := core.Action{Kind: core.ActionSeen}
		if ev.Outcome == core.OutcomeYes {
			a.Count = 1
		}
		q.out = append(q.out, a)
	case !q.sent && now.Mono >= q.wakeAt:
		if reason := q.ended(now.Mono); reason != core.ReasonNone {
			q.refuse(reason)
		} else {
			q.ask(now)
		}
	}
	if !q.done && !q.sent {
		q.out = append(q.out, core.Action{Kind: core.ActionWake, At: q.wakeAt})
	}
	return q.out, nil
}

func (q *ExistsQuery) refuse(reason core.Reason) {
	q.done = true
	q.out = append(q.out, core.Action{Kind: core.ActionRefused, Reason: reason, Class: q.Reach.Class()})
}

func (q *ExistsQuery) ask(now core.Instant) {
	q.issued++
	q.sent = true
	q.out = append(q.out, core.Action{Kind: core.ActionExists, Request: q.issued, Key: q.Key, Limit: q.limit(now.Mono)})
}

// Idle implements core.Machine.
func (q *ExistsQuery) Idle() bool { return q.done }

// String implements core.Machine.
func (q *ExistsQuery) String() string { return "asking" }
