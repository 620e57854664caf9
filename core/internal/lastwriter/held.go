package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// renewHeld begins a renewal; its read serves as the later look if that is due.
func (l *Lease) renewHeld() {
	if l.Looking { // the look in flight is let go: this read sees what it would
		l.Looking = false
		l.Abandon()
	}
	l.renew()
}

// laterLook is one get besides the renewals. A renewal that is due or under way
// does as well, if its read comes later than this; otherwise it is put off.
func (l *Lease) laterLook() {
	switch {
	case l.Due(base.TimerNext):
		l.Timers[base.TimerLook] = base.Unset
	case l.Flight.ID != 0:
		l.Timers[base.TimerLook] = l.In(core.LaterLookMin)
	default:
		l.Timers[base.TimerLook] = base.Unset
		l.Looking = true
		l.read(l.RequestLimit(l.Timers[base.TimerDeadline]))
	}
}

// heldAnswer takes the answer to a renewal or to the later look.
func (l *Lease) heldAnswer(ev *core.Event, f base.Flight) {
	if l.Looking {
		l.Looking = false
		l.lookAnswer(ev)
		return
	}
	switch l.renewal(ev, f) {
	case lostTaken:
		l.lose(core.ReasonTaken)
	case lostReleased:
		l.lose(core.ReasonReleased)
	case overdue:
		l.pastDeadline()
	}
}

func (l *Lease) lookAnswer(ev *core.Event) {
	switch l.find(ev) {
	case foundOther:
		l.lose(core.ReasonTaken)
	case foundReleased:
		l.lose(core.ReasonReleased)
	case foundOurs: // another owner's write may have shown a shorter TTL
		if l.refit() {
			l.pastDeadline()
			return
		}
		l.Timers[base.TimerNext] = min(l.Timers[base.TimerNext], l.good+int64(l.Shortest/3))
	}
}
