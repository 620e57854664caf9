package capability

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// Patience is how long a question goes on that the store does not answer.
type Patience struct {
	Wait     core.Duration // the caller's
	begun    int64
	Answered bool // the store has said something before
	retries  int
}

// unknown says what to do after a request whose outcome is unknown: try again at an
// instant, or give up for a reason. A store that cannot be used is given up at once, one
// that has never answered after a while, one that has answered when the wait is over.
func (p *Patience) unknown(now int64, class core.Class, aside bool) (again int64, reason core.Reason) {
	if class.Permanent() {
		return 0, core.ReasonUnusable
	}
	most := Silence
	if p.Wait > 0 && (p.Answered || p.Wait < most) {
		most = p.Wait
	}
	if core.Duration(now-p.begun) >= most && (!p.Answered || p.Wait != core.Forever) {
		if p.Answered {
			return 0, core.ReasonLimit
		}
		return 0, core.ReasonUnreachable
	}
	p.retries = min(p.retries+1, mostDoubles)
	again = now + int64(retryFirst)<<p.retries
	if class == core.ClassThrottled && !aside {
		again = max(again, now+int64(BetweenWrites))
	}
	if end := p.begun + int64(most); end > now {
		again = min(again, end)
	}
	return again, core.ReasonNone
}

// limit bounds a request: who waits less than Silence, or has less left of its wait,
// must not wait for a silent store any longer than that.
func (p *Patience) limit(now int64) core.Duration {
	if p.Wait <= 0 {
		return Silence
	}
	return max(core.Second/1000, min(Silence, p.Wait-core.Duration(now-p.begun)))
}

func (p *Patience) snapshot(s *base.Snapshot) {
	s.Int(int64(p.Wait))
	s.Int(p.begun)
	s.Bools(p.Answered)
	s.Int(int64(p.retries))
}

// Question asks whether a name has an object with a key.
type Question struct {
	Patience
	Key    string
	issued core.RequestID
	sent   bool
	wakeAt int64 // Mono
	done   bool
	out    []core.Action
}

// Step implements core.Machine. The end is seen, with the answer as Count, or refused.
func (q *Question) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	q.out = q.out[:0]
	switch {
	case q.done:
	case ev.Kind == core.EventBegin:
		q.begun = now.Mono
		q.ask(now)
	case ev.Kind == core.EventAnswer && ev.Outcome == core.OutcomeUnknown:
		q.sent = false
		again, reason := q.unknown(now.Mono, ev.Class, false)
		if q.wakeAt = again; reason != core.ReasonNone {
			q.done = true
			q.out = append(q.out, core.Action{Kind: core.ActionRefused, Reason: reason, Class: ev.Class})
		}
	case ev.Kind == core.EventAnswer:
		q.sent, q.done = false, true
		a := core.Action{Kind: core.ActionSeen}
		if ev.Outcome == core.OutcomeYes {
			a.Count = 1
		}
		q.out = append(q.out, a)
	case !q.sent && now.Mono >= q.wakeAt:
		q.ask(now)
	}
	if !q.done && !q.sent {
		q.out = append(q.out, core.Action{Kind: core.ActionWake, At: q.wakeAt})
	}
	return q.out, nil
}

func (q *Question) ask(now core.Instant) {
	q.issued++
	q.sent = true
	q.out = append(q.out, core.Action{Kind: core.ActionExists, Request: q.issued, Key: q.Key, Limit: q.limit(now.Mono)})
}

// Idle implements core.Machine.
func (q *Question) Idle() bool { return q.done }

// String implements core.Machine.
func (q *Question) String() string { return "asking" }

// AppendState implements core.Machine.
func (q *Question) AppendState(dst []byte) []byte {
	s := base.Snapshot(dst)
	q.snapshot(&s)
	s.Text(q.Key)
	s.Uint(uint64(q.issued))
	s.Bools(q.sent, q.done)
	s.Int(q.wakeAt)
	return s
}

// Clone implements core.Machine.
func (q *Question) Clone() core.Machine {
	twin := *q
	twin.out = nil
	return &twin
}
