package core

// renewHeld begins a renewal; its read serves as the later look if that is due.
func (l *Lease) renewHeld() {
	if l.looking { // the look in flight is let go: this read sees what it would
		l.looking = false
		l.abandon()
	}
	l.renew()
}

// laterLook is one get besides the renewals. A renewal that is due or under way
// does as well, if its read comes later than this; otherwise it is put off.
func (l *Lease) laterLook() {
	switch {
	case l.due(timerNext):
		l.timers[timerLook] = unset
	case l.flight.id != 0:
		l.timers[timerLook] = l.in(LaterLookMin)
	default:
		l.timers[timerLook] = unset
		l.looking = true
		l.read(l.requestLimit(l.timers[timerDeadline]))
	}
}

// heldAnswer takes the answer to a renewal or to the later look.
func (l *Lease) heldAnswer(ev *Event, f flight) {
	if l.looking {
		l.looking = false
		l.lookAnswer(ev)
		return
	}
	switch l.renewal(ev, f) {
	case lostTaken:
		l.lose(ReasonTaken)
	case lostReleased:
		l.lose(ReasonReleased)
	case overdue:
		l.pastDeadline()
	}
}

func (l *Lease) lookAnswer(ev *Event) {
	switch l.find(ev) {
	case foundOther:
		l.lose(ReasonTaken)
	case foundReleased:
		l.lose(ReasonReleased)
	case foundOurs: // another owner's write may have shown a shorter TTL
		if l.refit() {
			l.pastDeadline()
			return
		}
		l.timers[timerNext] = min(l.timers[timerNext], l.good+int64(l.shortest/3))
	}
}
