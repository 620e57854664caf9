// Package lastwriter has the machines of the protocol that mops speaks, in which the
// last writer of lock.json wins: Lease claims a name, and Companion keeps a lease alive
// that another process holds. They need a store that reads its own writes, and no
// create-if-absent. The rules are L1 to L9 of core/PROTOCOL.md.
package lastwriter

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// Lease is the machine of one claim: acquire, hold, release. It is made for
// one tenure and ends in Released, Refused or Lost; the next claim takes a new
// one. doc.go has its states and edges.
type Lease struct {
	Tenure
	base.Lease

	// Of a bridge.
	yields bool       // it claims nothing, and ends when the name is free
	Ended  core.Epoch // another's record of a smaller epoch is free: the register has ended that tenure; 0 is none
	Stale  string     // who wrote the record that was found stale, and claimed

	// Acquiring.
	readStart int64
	empties   int            // reads that found an empty object
	lostPuts  int            // attempts in a row whose put the store did not take
	slowReads int            // that found it free but took longer than the acquire margin
	Unchanged base.Unchanged // of another's record, by the observed rule

	// Claiming.
	Confirming    bool // the put that carries first_acquired_at is out
	Rounds        int  // own puts found expired
	firstPutSent  int64
	firstPutWall  int64
	firstPutCount int64
	verifyWait    core.Duration

	// Held.
	Rereading bool // the get in flight is the later read (PROTOCOL L6)

	// Releasing and after.
	brief      bool
	Settling   bool // the put in flight is not the release but what came before
	releasedAt int64
	rechecks   int
}

// NewLease makes a lease machine in state Idle. With cfg.Holder set it can only
// release that tenure.
func NewLease(cfg core.Config) (*Lease, error) {
	cfg.Machine = core.MachineLease
	t, err := newTenure(cfg)
	if err != nil {
		return nil, err
	}
	return &Lease{Tenure: t, Lease: base.NewLease(&cfg, LeaseEdges[:])}, nil
}

// Yield has it claim nothing, and end as vacant when the name is free.
func (l *Lease) Yield() { l.yields = true }

// Holder is the tenure's id.
func (l *Lease) Holder() core.HolderID { return l.HolderID }

// IsWaiting implements base.Reporting.
func (l *Lease) IsWaiting() bool { return l.State == core.LeaseWaiting }

// UsesChange implements base.Reporting.
func (l *Lease) UsesChange() bool { return l.State == core.LeaseWaiting || l.State == core.LeaseHeld }

// Step implements Machine.
func (l *Lease) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := l.Start(l, now, &ev); err != nil {
		return nil, err
	}
	if l.Due(base.TimerDeadline) {
		// Before anything else, and without waiting for I/O: an answer that comes
		// with this Step is too late to be believed.
		l.pastDeadline()
	}
	switch ev.Kind {
	case core.EventAcquire:
		l.acquire(ev.Wait)
	case core.EventRelease:
		l.release(ev.Brief)
	case core.EventCancel:
		l.cancel()
	case core.EventAnswer:
		if f, ok := l.Land(&ev); ok {
			l.answer(&ev, f)
		}
	case core.EventChanged:
		if l.State == core.LeaseWaiting {
			l.reconsider()
		}
	case core.EventWoke:
		l.woke()
	}
	return l.Finish(), nil
}

// become moves along an edge of the table.
func (l *Lease) become(to core.LeaseState) { l.Move(&l.Machine, to) }

func (l *Lease) answer(ev *core.Event, f base.Flight) {
	l.Reached(&l.Machine, ev, f)
	switch l.State {
	case core.LeaseObserving:
		l.observed(ev, f)
	case core.LeaseClaiming:
		l.putAnswer(ev)
	case core.LeaseVerifying:
		l.verified(ev, f)
	case core.LeaseDoubtful:
		l.readBack(ev)
	case core.LeaseHeld:
		l.heldAnswer(ev, f)
	case core.LeaseReleasing:
		l.releaseAnswer(ev, f)
	case core.LeaseReleased:
		l.recheckAnswer(ev, f)
	}
}

// woke handles every timer that is due, in the order of the timer table.
func (l *Lease) woke() {
	if l.Due(base.TimerReach) {
		l.unreached()
	}
	if l.Due(base.TimerLimit) && l.OutOfPatience(&l.Machine) {
		l.refuse(l.WaitEnded(&l.Machine))
	}
	if l.Due(base.TimerExtra) {
		l.laterRead()
	}
	if l.RanOut(base.TimerNext) {
		l.next()
	}
}

// next does what the state was waiting to do.
func (l *Lease) next() {
	switch l.State {
	case core.LeaseObserving:
		l.read(l.ReadLimit())
	case core.LeaseWaiting:
		l.reconsider()
	case core.LeaseVerifying, core.LeaseDoubtful:
		l.read(l.RequestLimit(l.attemptBy()))
	case core.LeaseHeld:
		l.renewHeld()
	case core.LeaseReleasing:
		l.releaseRead()
	case core.LeaseReleased:
		l.read(core.RequestLimit)
	}
}

// acquire begins the one acquire of this machine.
func (l *Lease) acquire(wait core.Duration) {
	l.Await(&l.Machine, wait)
	l.become(core.LeaseObserving)
	l.lookFirst()
}

// reconsider goes from Waiting back to a read.
func (l *Lease) reconsider() {
	l.become(core.LeaseObserving)
	l.read(l.ReadLimit())
}

// unreached: the store has not answered for too long. What an attempt has left is
// released when the caller has been told.
func (l *Lease) unreached() {
	if reason := l.Unreached(&l.Machine); l.IsLooking() {
		l.refuse(reason)
	} else {
		l.turnAway(reason)
	}
}

// turnAway refuses an attempt, and then releases what it has left.
func (l *Lease) turnAway(reason core.Reason) {
	l.Refused(reason, &l.Observed)
	l.Timers[base.TimerReach], l.Timers[base.TimerLimit] = base.Unset, base.Unset
	if l.State == core.LeaseReleasing {
		l.Ending = base.EndRefused
		return
	}
	l.giveUp(base.EndRefused)
}

// refuse ends the acquire. Nothing of ours is in the store, or it will expire.
func (l *Lease) refuse(reason core.Reason) {
	l.become(core.LeaseRefused)
	l.Refused(reason, &l.Observed)
}

// cancel gives up whatever has been asked and not yet been given.
func (l *Lease) cancel() {
	switch l.State {
	case core.LeaseObserving, core.LeaseWaiting:
		l.refuse(core.ReasonCancelled)
	case core.LeaseClaiming, core.LeaseVerifying, core.LeaseDoubtful:
		l.turnAway(core.ReasonCancelled)
	case core.LeaseReleasing:
		if l.Ending == base.EndRaced {
			l.turnAway(core.ReasonCancelled)
		}
	}
}

// lose ends belief. Nothing of ours is written after it.
func (l *Lease) lose(reason core.Reason) {
	l.become(core.LeaseLost)
	l.Lost(reason, &l.Observed)
}

// pastDeadline: the lease may be another's from now on.
func (l *Lease) pastDeadline() {
	if l.Failing || l.Flight.ID != 0 && !l.Rereading {
		l.lose(core.ReasonUnreachable)
		return
	}
	l.lose(core.ReasonExpired)
}
