package simulate

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// process is a host: the machines that it keeps, and what it knows for them all.
// What a crash ends is in life; the rest comes again with the next one.
type process struct {
	number      int
	computer    *computer
	onSession   bool
	slots       []*slot
	pausedUntil int64
	dead        bool
	life
}

// life is what a process knows between its start and its end.
type life struct {
	owner   string  // of its samples of the store's clock
	units   []*unit // whose machines have not ended
	session *unit   // opening, in force or closing
	sid     string  // the session in force, or ""
	until   int64   // Mono until which it is
	end     core.Reason
	last    map[string]release // by name
	sample  sample
	asked   int64 // Mono of the last sample, or 0
}

// release is what a process remembers of a name that it released alone.
type release struct {
	epoch core.Epoch
	at    int64
}

// sample is one of the store's clock.
type sample struct{ stamp, at int64 }

// sighting is what is remembered of a name between machines of one boot.
type sighting struct {
	print uint64
	since int64
}

// unit is one machine with its host's side.
type unit struct {
	process *process
	label   string
	machine core.Machine
	kind    core.MachineKind
	name    string
	slot    *slot
	guard   check.Guard

	onSession bool
	wakeTurn  uint32
	crashed   bool
	ended     bool
	endedAt   int64

	// Of a lease or companion.
	claim     check.Claim
	at        int64  // Mono of its own deadline
	session   string // that it stands on
	believes  bool
	frozen    bool // a call is being checked: the session's renewals do it no good
	waiting   bool // for its first held
	waitSince int64

	shared
}

// request is one on its way.
type request struct {
	unit    *unit
	action  core.Action
	applied bool
	unknown bool // its process does not hear what the store says
	class   core.Class
	reply   core.Event
}

// told is an event that a machine is to be given once a Step is through.
type told struct {
	unit  *unit
	event core.Event
}

// newUnit makes a machine and what its host keeps of it.
func (w *world) newUnit(p *process, cfg core.Config) *unit {
	w.machines++
	cfg.Protocol, cfg.Seed = w.opts.Protocol, w.chance.seed16()
	if cfg.Name == "" && cfg.Machine != core.MachineSession && cfg.Machine != core.MachineStoreClockSample {
		panic("simulate: a machine without a name")
	}
	w.configure(p, &cfg)
	label := cfg.Machine.String() + " " + strconv.Itoa(w.machines) + " of process " + strconv.Itoa(p.number)
	u := &unit{process: p, label: label, kind: cfg.Machine, name: cfg.Name, onSession: cfg.OnSession}
	u.claim = check.Claim{Actor: label, Name: cfg.Name, Tenure: string(cfg.Holder)}
	m, err := w.opts.New(cfg)
	if err != nil {
		w.checker.fail(w.now, Contract, "%s cannot be made: %v", label, err)
		return nil
	}
	u.machine = m
	p.units = append(p.units, u)
	return u
}

// configure fills in what all machines of a run or of a process have in common.
func (w *world) configure(p *process, cfg *core.Config) {
	cfg.TTL, cfg.StampUnit = core.TTL(w.opts.TTL), max(1, w.faults.StampUnit)
	cfg.Expiry = w.expiry
	if w.opts.Protocol == core.ProtocolLastWriter {
		cfg.FleetExpire, cfg.Renewal = core.TTLEndless, core.RenewalChecked
		if w.opts.Blind {
			cfg.Renewal = core.RenewalBlind
		}
		if w.opts.Weather == Orderly {
			cfg.AcquireMargin = 2*w.faults.longest() + core.RequestFloor
		}
		return
	}
	cfg.Boot = p.computer.boot
	if w.faults.Spread == 0 {
		cfg.StampSpread = core.OneClock
	}
	switch cfg.Machine {
	case core.MachineLease:
		cfg.OnSession = p.onSession
		if last, ok := p.last[cfg.Name]; ok {
			cfg.LastEpoch, cfg.LastAt = last.epoch, last.at
			delete(p.last, cfg.Name)
		}
		if seen, ok := w.seen[p.computer][cfg.Name]; ok && cfg.Boot != "" {
			cfg.SeenFingerprint, cfg.SeenSince = seen.print, seen.since
		}
	case core.MachineSemaphore:
		cfg.OnSession = true
	case core.MachineStoreClockSample:
		cfg.Owner = p.owner
	}
}

// tell gives a machine one event and does what it asks for.
func (w *world) tell(u *unit, ev core.Event) {
	if w.checker.found != nil || u.crashed {
		return
	}
	p := u.process
	if w.opts.Protocol == core.ProtocolStrict {
		ev.StoreStamp, ev.StoreAt = p.sample.stamp, p.sample.at
		if u.onSession {
			ev.Session, ev.SessionUntil, ev.SessionEnd = []byte(p.sid), p.until, p.end
		}
	}
	quiet := u.ended && u.machine.Idle()
	actions, err := w.step(u.machine, p.computer.instant(w.now), ev)
	if !quiet || len(actions) > 0 || err != nil {
		w.note(u, &ev, actions)
	}
	if err != nil {
		w.checker.fail(w.now, Contract, "%s in state %s refuses %s: %v", u.label, u.machine, ev.Kind, err)
		return
	}
	if quiet && len(actions) > 0 {
		w.checker.fail(w.now, check.QuietWhenIdle, "%s has ended, and does %s when told %s", u.label, actions[0].Kind, ev.Kind)
	}
	if u.kind == core.MachineSemaphore {
		w.checker.Found(w.now, u.desk.Watch(u.machine, u.name, actions), u.label)
	} else {
		w.checker.Found(w.now, u.guard.Watch(u.machine, actions), u.label)
	}
	u.wakeTurn++ // a Step without a wake leaves none
	for i := range actions {
		w.heed(u, &actions[i])
	}
	w.settleBelief(u)
	for len(w.pending) > 0 {
		next := w.pending[0]
		w.pending = w.pending[1:]
		w.tell(next.unit, next.event)
	}
}

// step makes an error of a panic, which then is told with its seed and its story.
func (w *world) step(m core.Machine, now core.Instant, ev core.Event) (actions []core.Action, err error) {
	defer func() {
		if said := recover(); said != nil {
			err = fmt.Errorf("panic: %v", said)
			for line := range strings.Lines(string(debug.Stack())) {
				if strings.Contains(line, "/core/") {
					w.say("    %s", strings.TrimSpace(line))
				}
			}
		}
	}()
	return m.Step(now, ev)
}

// afterwards tells a machine something as soon as the Step in progress is through.
func (w *world) afterwards(u *unit, ev core.Event) { w.pending = append(w.pending, told{u, ev}) }

// heed does what one action asks for.
func (w *world) heed(u *unit, a *core.Action) {
	p := u.process
	if a.Observed != nil && a.Observed.Fingerprint != 0 && p.computer.boot != "" {
		w.seen[p.computer][u.name] = sighting{a.Observed.Fingerprint, a.Observed.Since}
	}
	switch a.Kind {
	case core.ActionGet, core.ActionPut, core.ActionCreate, core.ActionExists, core.ActionList, core.ActionDelete:
		w.send(u, a)
	case core.ActionWake:
		w.queue.push(item{at: max(w.now, p.computer.trueAt(a.At)), kind: occasionWake, unit: u, turn: u.wakeTurn})
	case core.ActionSampleStoreClock:
		w.sampleStoreClock(p)
	case core.ActionStoreClockSampled:
		if a.At > p.sample.at {
			p.sample = sample{stamp: a.Wall, at: a.At}
		}
		w.ended(u)
	case core.ActionCalled:
		for _, other := range p.units {
			if other.name == a.Key && other.onSession { // also one that only claims
				w.afterwards(other, core.Event{Kind: core.EventCalled, Epoch: a.Epoch})
			}
		}
	default:
		switch {
		case u.kind == core.MachineSession:
			w.heedSession(u, a)
		case a.Permit != 0:
			w.heedPermit(u, a)
		default:
			w.heedNotice(u, a)
		}
	}
}

// heedNotice takes what a machine says of its lease.
func (w *world) heedNotice(u *unit, a *core.Action) {
	switch a.Kind {
	case core.ActionHeld:
		u.claim.Tenure, u.claim.Epoch, u.claim.Token = string(a.Holder), a.Epoch, a.Token
		u.at, u.session, u.believes = a.At, a.Session, true
		w.served(u)
	case core.ActionRenewed:
		u.at, u.frozen = a.At, false
	case core.ActionDeadline:
		u.at, u.frozen = a.At, u.session != ""
	case core.ActionAdopted:
		u.claim.Epoch = a.Epoch
	case core.ActionContactLost:
		w.stop(u, "contact lost")
	case core.ActionReleased:
		if a.At != 0 {
			u.process.last[u.name] = release{a.Epoch, a.At}
		}
		w.finish(u, "released", a)
	case core.ActionLost:
		w.stats.losses[a.Reason.String()]++
		w.finish(u, "lost", a)
	case core.ActionRefused, core.ActionCannotMaintain:
		w.stats.refusals[u.kind.String()+" "+a.Reason.String()]++
		w.finish(u, "refused", a)
	case core.ActionLeft, core.ActionBroken, core.ActionSeen:
		w.finish(u, a.Kind.String(), a)
	}
}

// settleBelief tells the checker what a machine relies on after a Step.
func (w *world) settleBelief(u *unit) {
	if u.kind == core.MachineSemaphore {
		w.settlePermits(u)
	}
	if !u.believes {
		return
	}
	p, until := u.process, u.at
	if u.session != "" && u.session == p.sid && !u.frozen {
		until = max(until, p.until)
	}
	deadline := p.computer.trueAt(until)
	w.checker.Observe(Fact{Kind: FactBelieves, At: w.now, Until: deadline, Claim: u.claim})
	w.holds.believes(u, w.now, deadline)
}

// stop: a machine does not rely on its lease any more.
func (w *world) stop(u *unit, how string) {
	if u.pool != nil {
		w.stopPermit(u, how)
		return
	}
	if u.believes {
		u.believes = false
		w.checker.Observe(Fact{Kind: FactStops, At: w.now, Claim: u.claim})
		w.holds.stops(u, w.now)
		w.stats.stopped(w, u, how)
	}
}

// finish: a machine has said its last word on a lease.
func (w *world) finish(u *unit, how string, a *core.Action) {
	w.stop(u, how)
	w.ended(u)
	w.stats.waitOver(w, u)
	if u.kind == core.MachineSemaphore {
		w.closeSession(u.process)
	}
	if a.Kind == core.ActionReleased || a.Kind == core.ActionLost {
		for _, other := range u.process.units { // a host tells its own waiters at once
			if other.waiting && other.name == u.name && w.bells {
				w.afterwards(other, core.Event{Kind: core.EventChanged})
			}
		}
	}
	if s := u.slot; s != nil && s.unit == u {
		w.over(s)
	}
}

// ended puts a machine that has said its last word under watch.
func (w *world) ended(u *unit) {
	if u.ended {
		return
	}
	u.ended, u.endedAt = true, w.now
	p := u.process
	p.units = slices.DeleteFunc(slices.Clone(p.units), func(other *unit) bool { return other == u })
	w.queue.push(item{at: w.now + int64(w.life), kind: occasionPoke, unit: u})
}
