// Package bridge has the machine that keeps a name for processes with mops and without: a
// strict tenure, and under it a claim of mops' lock.json by the same holder. It drives the
// lease machines of both protocols, and adds to their rules only how the one depends on the
// other. Its own are those of core/PROTOCOL.md with a B.
package bridge

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/lastwriter"
	"github.com/mopslock/mopslock/core/internal/strict"
)

// Lease is the machine of one claim by bridge: acquire, hold, release. It is held while both
// halves are, and until the earlier of their deadlines.
//
//	lock.json   get(free) . . . . . . . . . . . . . . . . get put . get put(confirm)
//	register               list create(v) . . . . . . . .                           . held
type Lease struct {
	pair
	base.Standing[core.LeaseState]

	// Acquiring.
	lastTry  bool // a failed attempt is the end: try once, or patience is over
	polls    int
	since    int64         // Mono: the attempt at lock.json began
	why      core.Reason   // of what is refused when a failed attempt is cleaned up
	class    core.Class    // and of which class
	observed core.Observed `state:"exact: it is only told to people"`
	Known

	// Held.
	stale  string // who wrote the record that was found stale, and claimed
	claims bool   // lock.json is claimed again, and the old deadline stands

	// Releasing.
	ending base.Ending
	isLost bool // the caller was told so
}

// Known is what was seen of another's lease, and since when: the next attempt goes on from there.
type Known struct {
	Record, Version, End base.Unchanged // lock.json, the newest version, and its end
	Told                 uint64         // fingerprint of what the caller was told to wait for
	Warned               bool           // that TTLs differ
}

// NewLease makes a lease machine in state Idle.
func NewLease(cfg core.Config) (*Lease, error) {
	cfg.Machine, cfg.Protocol = core.MachineLease, core.ProtocolBridge
	p, err := newPair(cfg)
	if err != nil {
		return nil, err
	}
	seen := base.Unchanged{Fingerprint: cfg.SeenFingerprint, Since: cfg.SeenSince}
	return &Lease{pair: p, Standing: base.At(core.LeaseIdle, LeaseEdges[:]), Known: Known{Version: seen, End: seen}}, nil
}

// Idle implements Machine.
func (l *Lease) Idle() bool {
	return l.Machine.Idle() && l.register.isOver() && l.record.isOver() && l.State != core.LeaseHeld
}

// String implements Machine.
func (l *Lease) String() string { return l.Standing.String() }

// IsWaiting implements base.Reporting.
func (l *Lease) IsWaiting() bool { return l.State == core.LeaseWaiting }

// UsesChange implements base.Reporting.
func (l *Lease) UsesChange() bool {
	return l.State == core.LeaseWaiting || l.State == core.LeaseClaiming || l.State == core.LeaseHeld
}

// Accepts is the contract's table: which commands have a meaning in which state.
func (l *Lease) Accepts(kind core.EventKind) bool {
	switch kind {
	case core.EventAcquire:
		return l.State == core.LeaseIdle && l.Cfg.Holder == ""
	case core.EventRelease:
		return l.State != core.LeaseIdle || l.Cfg.Holder != ""
	case core.EventCancel:
		return l.State != core.LeaseIdle
	}
	return base.IsNews(kind) || kind == core.EventCalled
}

// Step implements Machine.
func (l *Lease) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := l.start(l, now, &ev); err != nil {
		return nil, err
	}
	l.goOn()
	switch ev.Kind {
	case core.EventAcquire:
		l.acquire(ev.Wait)
	case core.EventRelease:
		l.brief = l.brief || ev.Brief
		l.release()
	case core.EventCancel:
		l.cancel()
	case core.EventWoke:
		l.woke()
	}
	l.goOn()
	return l.finish(), nil
}

// look asks whether lock.json is free, and waits until it is. Nothing of ours is in the store meanwhile: one that
// waits for lock.json holds no version, so nobody starves behind it.
func (l *Lease) look(wait core.Duration) {
	m := l.newRecord()
	m.Yield()
	l.order(&l.record, core.EventAcquire, wait)
}

// newRecord makes the machine of lock.json, which goes on with what earlier ones have seen.
func (l *Lease) newRecord() *lastwriter.Lease {
	l.record.forget()
	m, err := lastwriter.NewLease(l.configOfRecord(core.MachineLease))
	must(err)
	m.Mutant = l.Mutant
	m.Reach.Inherit(&l.Reach)
	m.Unchanged, m.Told, m.Warned, m.Races = l.Record, l.Told, l.Warned, l.polls
	l.record.machine = m
	return m
}

// startPrinted makes both machines of a tenure that is known on paper, to be released.
func (l *Lease) startPrinted() {
	l.newRecord()
	m, err := strict.NewLease(l.configOfRegister(core.MachineLease))
	must(err)
	m.Bridge()
	m.Mutant = l.Mutant
	l.register.machine = m
}

// startRegister claims the name in the register.
func (l *Lease) startRegister(wait core.Duration) {
	l.register.forget()
	m, err := strict.NewLease(l.configOfRegister(core.MachineLease))
	must(err)
	m.Bridge()
	m.Mutant = l.Mutant
	m.Reach.Inherit(&l.Reach)
	m.Unchanged, m.EndUnchanged, m.Again = l.Version, l.End, !l.lastTry
	l.Cfg.LastEpoch = 0 // true once
	l.register.machine = m
	l.order(&l.register, core.EventAcquire, wait)
}

// claim tries lock.json once, under the version that we hold.
func (l *Lease) claim() {
	m := l.newRecord()
	m.HolderID, m.Epoch = l.held.holder, l.held.token
	if l.claims {
		m.Ended = l.held.token
	}
	l.order(&l.record, core.EventAcquire, l.waitUnderVersion())
}
