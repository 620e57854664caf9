package core

// A lease that stands on a session waits for nothing: its machine is not stepped
// until it is released, or its session is lost or called. A process may have ten
// thousand of them, and most of a machine is for how it came to be held.

// Resting is a StrictLease at rest: all that makes it what it is, a quarter of its
// size. It cannot be stepped; Wake makes the machine again.
type Resting struct {
	deliberate
	holder      HolderID
	session     string
	name, label string
	boot        string
	host, pid   string
	tid         uint64

	ttl, margin  Duration
	unit, spread Duration

	rng    rng
	now    Instant
	issued RequestID

	n        Epoch // of the version that we made, when, and the print of its nonce
	sent     int64
	print    uint64
	adopted  *current // the version in its place that another owner made, or nil
	basis    int64
	selfAt   int64
	own      int64
	until    int64
	toldAt   int64
	calledAt Epoch

	expiry   Expiry
	end      Reason
	lastTry  bool
	answered bool
}

// forget gives back what a lease at rest has no use for any more.
func (l *StrictLease) forget() {
	l.out, l.body, l.sight, l.garbage = nil, nil, nil, nil
	l.key, l.register.above, l.aboveOf, l.after, l.paged = "", "", 0, "", 0
	l.doing, l.class = forNothing, ClassNone
	l.ending, l.closing = endReleased, 0
	l.watch, l.endWatch, l.ended = watch{}, watch{}, seenBeat{}
	l.call, l.sample, l.fresh = callSeen{}, clockSample{}, clockSample{}
	l.polls, l.races, l.lateWins, l.told, l.waitedAt = 0, 0, 0, 0, 0
	l.moved, l.sampling, l.again = false, false, false
}

// isAtRest reports whether it is held and waits for nothing, which is so on a session alone.
func (l *StrictLease) isAtRest() bool { return l.state == LeaseHeld && l.owner.Idle() }

// Rest is the machine at rest, or nil if it is not. What its latest Step returned
// stands all the same.
func (l *StrictLease) Rest() *Resting {
	if !l.isAtRest() || l.session.id != l.standOn {
		return nil
	}
	c, s := &l.cfg, &l.cur
	r := &Resting{
		deliberate: l.deliberate, holder: l.holder, session: l.standOn,
		name: c.Name, label: c.Label, boot: c.Boot, host: c.Host, pid: c.PID, tid: c.TID,
		ttl: c.TTL, margin: c.Margin, unit: c.StampUnit, spread: c.StampSpread,
		rng: l.rng, now: l.now, issued: l.issued,
		n: s.n, sent: s.boottime, print: s.print, basis: l.basis, selfAt: l.selfAt, own: l.own,
		until: l.session.until, toldAt: l.toldAt, calledAt: l.calledAt,
		expiry: c.Expiry, end: l.session.end, lastTry: l.lastTry, answered: l.answered,
	}
	if r.made() != *s {
		adopted := *s
		r.adopted = &adopted
	}
	return r
}

// made is the version that the lease was acquired by.
func (r *Resting) made() current {
	return current{
		n: r.n, origin: r.n, state: VersionHeld, tenure: r.holder, owners: withOwner("", string(r.holder)),
		session: r.session, label: r.label, ttl: r.ttl, margin: r.margin, boottime: r.sent, print: r.print,
	}
}

// Wake is the machine that Rest was asked of, as it was. Of its Config it has what a
// lease that is held asks for.
func (r *Resting) Wake() *StrictLease {
	l := &StrictLease{state: LeaseHeld, holder: r.holder, lastTry: r.lastTry, answered: r.answered, calledAt: r.calledAt}
	l.machine = machine{
		deliberate: r.deliberate, rng: r.rng, now: r.now, issued: r.issued, timers: newTimers(),
		cfg: Config{
			Machine: MachineLease, Protocol: ProtocolStrict, Name: r.name, TTL: r.ttl, Margin: r.margin, OnSession: true,
			Expiry: r.expiry, StampUnit: r.unit, StampSpread: r.spread, Boot: r.boot, Label: r.label,
			Host: r.host, PID: r.pid, TID: r.tid,
		}.WithDefaults(),
	}
	l.prefix, l.owner.owner = registerPrefix(r.name), string(r.holder)
	l.basis, l.toldAt = r.basis, r.toldAt
	l.register.session = sessionView{r.session, r.until, r.end}
	l.putSent, l.quiet = unset, -MaxClockRange
	l.selfAt, l.own, l.standOn = r.selfAt, r.own, r.session
	if l.cur = r.made(); r.adopted != nil {
		l.cur = *r.adopted
	}
	return l
}
