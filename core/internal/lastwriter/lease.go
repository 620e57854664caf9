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
	state core.LeaseState

	// Acquiring.
	LastTry   bool // a failed attempt is the end: try once, or patience is over
	Answered  bool // the store has said yes or no to something
	readStart int64
	polls     int
	Races     int
	empties   int            // reads that found an empty object
	lostPuts  int            // claims in a row that the store did not take
	slowReads int            // that found it free but took longer than the acquire margin
	Unchanged base.Unchanged // of another's record, by the observed rule
	Told      uint64

	// Claiming.
	Confirming bool // the put that carries first_acquired_at is out
	Rounds     int  // own claims found expired
	claimSent  int64
	claimWall  int64
	claimCount int64
	claimWait  core.Duration

	// Held.
	Rereading bool // the get in flight is the later read (PROTOCOL L6)

	// Releasing and after.
	Ending     base.Ending
	brief      bool
	Settling   bool // the put in flight is not the release but what came before
	releasedAt int64
	rechecks   int
}

// NewLease makes a lease machine in state Idle. With cfg.Holder set it can only
// release that tenure.
func NewLease(cfg core.Config) (*Lease, error) {
	cfg.Machine = core.MachineLease
	k, err := newTenure(cfg)
	if err != nil {
		return nil, err
	}
	return &Lease{Tenure: k, state: core.LeaseIdle}, nil
}

// String implements Machine.
func (l *Lease) String() string { return l.state.String() }

// State is where the machine stands.
func (l *Lease) State() core.LeaseState { return l.state }

// Holder is the tenure's id.
func (l *Lease) Holder() core.HolderID { return l.HolderID }

// Step implements Machine.
func (l *Lease) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := l.Admit(now, &ev); err != nil {
		return nil, err
	}
	if !l.accepts(ev.Kind) {
		return nil, base.ErrEvent(l.state.String(), ev.Kind)
	}
	l.Begin(now)
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
		if l.state == core.LeaseWaiting {
			l.reconsider()
		}
	case core.EventWoke:
		l.woke()
	}
	return l.Finish(), nil
}

// accepts is the contract's table: which commands have a meaning where. Answers,
// changed and woke always do, if only to be ignored.
func (l *Lease) accepts(kind core.EventKind) bool {
	switch kind {
	case core.EventAnswer, core.EventChanged, core.EventWoke:
		return true
	case core.EventAcquire:
		return l.state == core.LeaseIdle && l.Cfg.Holder == ""
	case core.EventRelease:
		return l.state != core.LeaseIdle || l.Cfg.Holder != ""
	case core.EventCancel:
		return l.state != core.LeaseIdle
	}
	return false
}

// become moves along an edge of the table.
func (l *Lease) become(to core.LeaseState) {
	base.CheckMove(LeaseEdges[:], l.state, to)
	l.state = to
	l.Timers[base.TimerNext] = base.Unset
	if to >= core.LeaseReleased {
		l.Timers = base.NewTimers()
		l.Abandon()
	}
}

func (l *Lease) answer(ev *core.Event, f base.Flight) {
	if ev.Outcome != core.OutcomeUnknown {
		l.Answered = true
		l.Timers[base.TimerReach] = base.Unset
	}
	switch l.state {
	case core.LeaseObserving:
		l.observed(ev, f)
	case core.LeaseClaiming:
		l.claimed(ev)
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
		l.refuse(core.ReasonUnreachable)
	}
	if l.Due(base.TimerLimit) {
		l.outOfPatience()
	}
	if l.Due(base.TimerExtra) {
		l.laterRead()
	}
	if l.Due(base.TimerNext) {
		l.Timers[base.TimerNext] = base.Unset
		l.next()
	}
}

// next does what the state was waiting to do.
func (l *Lease) next() {
	switch l.state {
	case core.LeaseObserving:
		l.read(l.observeLimit())
	case core.LeaseWaiting:
		l.reconsider()
	case core.LeaseVerifying, core.LeaseDoubtful:
		l.read(l.RequestLimit(l.claimBy()))
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
	l.LastTry = wait == 0
	reach := core.FirstAnswerLimit
	if wait > 0 {
		l.Timers[base.TimerLimit] = l.In(wait)
		reach = min(reach, wait)
	}
	l.Timers[base.TimerReach] = l.In(reach)
	l.become(core.LeaseObserving)
	l.read(l.observeLimit())
}

// observeLimit bounds a read that no lease depends on. Until the store has
// answered once the whole silence is bounded, so one read must not outlast it.
func (l *Lease) observeLimit() core.Duration {
	if reach := l.Timers[base.TimerReach]; reach != base.Unset {
		return max(core.RequestFloor, l.Until(reach))
	}
	return core.RequestLimit
}

// reconsider goes from Waiting back to a read.
func (l *Lease) reconsider() {
	l.become(core.LeaseObserving)
	l.read(l.observeLimit())
}

// outOfPatience ends a wait. An attempt that is under way runs to its end,
// which is bounded; it is then the last.
func (l *Lease) outOfPatience() {
	l.Timers[base.TimerLimit] = base.Unset
	l.LastTry = true
	if l.state == core.LeaseObserving || l.state == core.LeaseWaiting {
		l.refuseWaiting()
	}
}

func (l *Lease) refuseWaiting() {
	switch {
	case !l.Answered:
		l.refuse(core.ReasonUnreachable)
	case l.Told != 0 && !l.Failing:
		l.refuse(core.ReasonHeld)
	default:
		l.refuse(core.ReasonLimit)
	}
}

// refuse ends the acquire. Nothing of ours is in the store, or it will expire.
func (l *Lease) refuse(reason core.Reason) {
	l.become(core.LeaseRefused)
	a := l.Emit(core.ActionRefused)
	a.Reason = reason
	switch reason {
	case core.ReasonUnreachable, core.ReasonUnusable, core.ReasonLimit:
		a.Class = l.class
	}
	if reason != core.ReasonCancelled && l.Observed.State != 0 {
		a.Observed = &l.Observed
	}
}

// cancel gives up whatever has been asked and not yet been given.
func (l *Lease) cancel() {
	switch l.state {
	case core.LeaseObserving, core.LeaseWaiting:
		l.refuse(core.ReasonCancelled)
	case core.LeaseClaiming, core.LeaseVerifying, core.LeaseDoubtful:
		l.giveUp(base.EndCancelled)
	case core.LeaseReleasing:
		if l.Ending == base.EndRaced {
			l.Ending = base.EndCancelled
		}
	}
}

// lose ends belief. Nothing of ours is written after it.
func (l *Lease) lose(reason core.Reason) {
	l.become(core.LeaseLost)
	a := l.Emit(core.ActionLost)
	a.Reason = reason
	if reason == core.ReasonTaken || reason == core.ReasonReleased {
		a.Observed = &l.Observed
	}
}

// pastDeadline: the lease may be another's from now on.
func (l *Lease) pastDeadline() {
	if l.Failing || l.Flight.ID != 0 && !l.Rereading {
		l.lose(core.ReasonUnreachable)
		return
	}
	l.lose(core.ReasonExpired)
}
