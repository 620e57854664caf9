package strict

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/register"
)

// A lease that stands on a session waits for nothing: its machine is not stepped
// until it is released, or its session is lost or called. A process may have ten
// thousand of them, and most of a machine is for how it was acquired.

// Parked is a Lease at rest: all that makes it what it is, a quarter of its
// size. It cannot be stepped; Unpark makes the machine again.
type Parked struct {
	base.Mutant // nothing in a product
	holderID    core.HolderID
	session     string
	name, label string
	boot        string
	host, pid   string
	tid         uint64

	ttl          core.TTL
	margin       core.Duration
	unit, spread core.Duration

	rng    base.RNG
	now    core.Instant
	issued core.RequestID

	n                 core.Epoch // of the version that we made, when, and the fingerprint of its nonce
	sent              int64
	fingerprint       uint64
	adopted           *register.Current // the version in its place that another owner made, or nil
	newestConfirmedAt int64
	selfAt            int64
	own               int64
	until             int64
	toldAt            int64
	calledAt          core.Epoch

	expiry  core.Expiry
	end     core.Reason
	lastTry bool
}

// WriteState implements base.Parked: the state of the machine as it was.
func (r *Parked) WriteState(w *core.StateWriter) { r.Unpark().WriteState(w) }

// forget gives back what a lease at rest has no use for any more.
func (l *Lease) forget() {
	l.Out, l.Body, l.Observed, l.Garbage = nil, nil, nil, nil
	l.Key, l.Register.Above, l.AboveOf, l.After, l.Paged = "", "", 0, "", 0
	l.Doing, l.Class = register.ForNothing, core.ClassNone
	l.Ending, l.Closing = base.EndReleased, 0
	l.Unchanged, l.EndUnchanged, l.Ended = base.Unchanged{}, base.Unchanged{}, register.Beat{}
	l.Call, l.Sample, l.Fresh = register.CallSeen{}, register.StoreClockSample{}, register.StoreClockSample{}
	l.sampling, l.Again = false, false
}

// isAtRest reports whether it is held and waits for nothing, which is so on a session alone.
func (l *Lease) isAtRest() bool { return l.State == core.LeaseHeld && l.renewer.Idle() }

// Park implements base.Reporting: the machine at rest, or nil if it is not. What its latest Step returned
// stands all the same.
func (l *Lease) Park() base.Parked {
	if !l.isAtRest() || l.Session.ID != l.standOn {
		return nil
	}
	c, s := &l.Cfg, &l.Cur
	r := &Parked{
		Mutant: l.Mutant, holderID: l.holderID, session: l.standOn,
		name: c.Name, label: c.Label, boot: c.Boot, host: c.Host, pid: c.PID, tid: c.TID,
		ttl: c.TTL, margin: c.Margin, unit: c.StampUnit, spread: c.StampSpread,
		rng: l.RNG, now: l.Now, issued: l.Issued,
		n: s.N, sent: s.Boottime, fingerprint: s.Fingerprint, newestConfirmedAt: l.NewestConfirmedAt, selfAt: l.selfAt, own: l.own,
		until: l.Session.Until, toldAt: l.ToldAt, calledAt: l.calledAt,
		expiry: c.Expiry, end: l.Session.End, lastTry: l.LastTry,
	}
	if r.made() != *s {
		adopted := *s
		r.adopted = &adopted
	}
	return r
}

// made is the version that the lease was acquired by.
func (r *Parked) made() register.Current {
	return register.Current{
		N: r.n, Origin: r.n, State: core.VersionHeld, Tenure: r.holderID, Owners: register.WithOwner("", string(r.holderID)),
		Session: r.session, Label: r.label, TTL: r.ttl.Duration(), Margin: r.margin, Boottime: r.sent, Fingerprint: r.fingerprint,
	}
}

// Unpark is the machine that Park was asked of, as it was. Of its Config it has what a
// lease that is held asks for.
func (r *Parked) Unpark() base.Reporting {
	l := &Lease{holderID: r.holderID, calledAt: r.calledAt}
	l.Lease = base.NewLease(&core.Config{}, LeaseEdges[:])
	l.State, l.LastTry = core.LeaseHeld, r.lastTry
	l.Machine = base.Machine{
		Mutant: r.Mutant, RNG: r.rng, Now: r.now, Issued: r.issued, Timers: base.NewTimers(),
		Cfg: core.Config{
			Machine: core.MachineLease,
			Terms: core.Terms{
				Protocol: core.ProtocolStrict, Name: r.name, TTL: r.ttl, Margin: r.margin, OnSession: true, Expiry: r.expiry,
				StampSpread: r.spread, Label: r.label,
			},
			StampUnit: r.unit, Boot: r.boot, Host: r.host, PID: r.pid, TID: r.tid,
		}.WithDefaults(),
	}
	l.Prefix, l.ParticipantID = register.RegisterPrefix(r.name), string(r.holderID)
	l.NewestConfirmedAt, l.ToldAt = r.newestConfirmedAt, r.toldAt
	l.Register.Session = register.SessionView{ID: r.session, Until: r.until, End: r.end}
	l.putSent, l.quiet = base.Unset, -core.MaxClockRange
	l.selfAt, l.own, l.standOn = r.selfAt, r.own, r.session
	if l.Cur = r.made(); r.adopted != nil {
		l.Cur = *r.adopted
	}
	return l
}
