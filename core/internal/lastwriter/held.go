package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// renewHeld begins a renewal; its read serves as the later one if that is due.
func (l *Lease) renewHeld() {
	if l.Rereading { // the read in flight is abandoned: this one sees what it would
		l.Rereading = false
		l.Abandon()
	}
	l.renew()
}

// laterRead is one get beside the renewals. A renewal that is due or under way
// does as well, if its read comes later than this; otherwise it is put off.
func (l *Lease) laterRead() {
	switch {
	case l.Due(base.TimerNext):
		l.Timers[base.TimerExtra] = base.Unset
	case l.Flight.ID != 0:
		l.Timers[base.TimerExtra] = l.In(core.LaterReadMin)
	default:
		l.Timers[base.TimerExtra] = base.Unset
		l.Rereading = true
		l.read(l.RequestLimit(l.Timers[base.TimerDeadline]))
	}
}

// heldAnswer takes the answer to a renewal or to the later read.
func (l *Lease) heldAnswer(ev *core.Event, f base.Flight) {
	if l.Rereading {
		l.Rereading = false
		l.laterReadAnswer(ev)
		return
	}
	switch reason := l.renewal(ev, f); reason {
	case core.ReasonNone:
	case core.ReasonExpired:
		l.pastDeadline()
	default:
		l.lose(reason)
	}
}

func (l *Lease) laterReadAnswer(ev *core.Event) {
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
