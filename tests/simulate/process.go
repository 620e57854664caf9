package simulate

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
	"github.com/mopslock/mopslock/tests/world"
)

// process is one that has a client, again and again. What a crash or a close ends is in life.
type process struct {
	number      int
	computer    *computer
	onSession   bool
	slots       []*slot
	pausedUntil int64
	stalls      bool   // it stands still as soon as something of it is renewed
	wakeTurn    uint32 // a wake stands only if no Step came between
	life
}

// life is a process between its start and its end.
type life struct {
	host    *world.Process // nil: it is dead
	owner   string         // of its permits
	units   []*unit        // claims that have not ended, in order of their numbers
	claims  uint64         // that were begun
	asked   map[core.RequestID]*request
	said    check.Transcript
	closing bool
	closed  bool
}

// String is its name in stories.
func (p *process) String() string { return "process " + strconv.Itoa(p.number) }

// unit is a claim of a process, and what is measured and believed of it.
type unit struct {
	process *process
	number  uint64
	label   string
	what    string // lease, work, permit, companion, breaker or observer
	name    string
	slot    *slot
	now     bool // of a break: it is one that frees at once

	claim     check.Claim
	permit    check.Permit // of a permit
	told      check.Claim  // as the checker was told last
	believes  bool
	waiting   bool // for its first held
	waitSince int64
}

// request is one on its way.
type request struct {
	process *process
	host    *world.Process
	unit    *unit // nil: it is the process's own
	action  core.Action
	applied bool
	dropped bool // nobody waits for its answer
	reply   core.Event
	fate
}

// start begins a process's life.
func (w *simulation) start(p *process) {
	w.lives++
	cfg := core.Config{
		Machine: core.MachineClient, Seed: w.chance.Seed16(), StampUnit: max(1, w.faults.StampUnit), Boot: p.computer.boot,
		Samples:  w.expiry == core.ExpiryCalibrated,
		OwnStore: !w.opts.Clients.Probed, Watches: w.opts.Clients.Watches, Remembers: w.opts.Clients.Remembers,
		InFlight: w.opts.Clients.Slots,
	}
	if w.faults.Spread == 0 {
		cfg.StampSpread = core.OneClock
	}
	client, err := w.opts.New(cfg)
	if err != nil {
		w.checker.fail(w.Now, Contract, "the client of %s cannot be made: %v", p, err)
		return
	}
	p.life = life{host: &world.Process{Client: client}, owner: "p" + strconv.Itoa(w.lives), asked: map[core.RequestID]*request{}}
	for _, s := range p.slots {
		w.next(s, w.chance.UpTo(int64(w.opts.Think)))
	}
}

// terms are those of a claim.
func (w *simulation) terms(p *process, name string) core.Terms {
	t := core.Terms{Protocol: w.opts.Protocol, Name: name, TTL: core.TTL(w.opts.TTL), Expiry: w.expiry}
	if w.opts.Protocol == core.ProtocolStrict {
		t.OnSession = p.onSession
		return t
	}
	t.FleetExpire, t.Renewal = core.TTLEndless, core.RenewalChecked
	if w.opts.Blind {
		t.Renewal = core.RenewalBlind
	}
	if w.opts.Weather == Orderly {
		t.AcquireMargin = 2*w.faults.longest() + core.RequestFloor
	}
	return t
}

// begin begins a claim of a process, for an actor or for none.
func (w *simulation) begin(p *process, s *slot, what string, ev core.Event, terms core.Terms) *unit {
	p.claims++
	w.claims++
	u := &unit{process: p, number: p.claims, what: what, name: terms.Name, slot: s, now: terms.Now}
	u.label = what + " " + strconv.Itoa(w.claims) + " of " + p.String()
	if what == whatPermit {
		ev.Label = strconv.AppendUint([]byte(p.owner+"."), u.number, 10)
		u.label = what + " " + string(ev.Label)
		u.permit = check.Permit{
			Actor: p.owner, Name: u.name, Number: u.number, Weight: uint64(max(ev.Weight, 1)),
			Most: uint64(ev.Capacity)*uint64(ev.Width) - uint64(ev.Spare),
		}
	}
	u.claim = check.Claim{Actor: u.label, Name: u.name, Tenure: string(terms.Holder)}
	p.units = append(p.units, u)
	if s != nil {
		s.unit, s.phase = u, phaseWaiting
	}
	if s != nil && s.role == roleOrchestrator {
		u.waiting, u.waitSince = true, w.Now
		w.stats.waits(u)
		ev.Body = w.memory[p.computer][u.name]
	}
	ev.Claim, ev.Terms = u.number, &terms
	w.tell(p, ev)
	return u
}

// unit is the claim of a number that has not ended, or nil.
func (l *life) unit(number uint64) *unit {
	i, there := slices.BinarySearchFunc(l.units, number, func(u *unit, n uint64) int { return cmp.Compare(u.number, n) })
	if !there {
		return nil
	}
	return l.units[i]
}

// tell gives a client one event and does what it asks for.
func (w *simulation) tell(p *process, ev core.Event) {
	if w.checker.found != nil || p.host == nil {
		return
	}
	now, before := p.computer.instant(w.Now), p.host.Known()
	p.said.Heard(&ev)
	actions, err := w.step(p, now, ev)
	w.note(p, &ev, actions)
	if err != nil {
		w.checker.fail(w.Now, Contract, "the client of %s refuses %s: %v", p, ev.Kind, err)
		return
	}
	found := func(v *check.Violation) {
		if v != nil {
			w.checker.take(w.Now, v, p.String())
		}
	}
	found(p.said.Watch(p.host.Client, actions))
	p.wakeTurn++
	for i := range actions {
		a := &actions[i]
		w.do(p, a)
		if s := before.StandsOn(a.Claim); s != nil {
			found(check.Tells(actions[:i+1], s.Number, s.Until <= now.Mono))
		}
		if a.Kind == core.ActionRenewed {
			found(check.Renewed(now.Mono, before.Relied(a), a.At))
			if p.stalls && !w.calm {
				w.pause(p)
			}
		}
	}
	if p.host.Wake == 0 && len(p.asked) == 0 && w.opts.TTL > 0 { // without a TTL nothing is to be renewed
		found(p.said.Forgotten())
	}
	w.believe(p)
	if p.closed {
		w.gone(p)
	}
}

// step makes an error of a panic, which then is told with its seed and its story.
func (w *simulation) step(p *process, now core.Instant, ev core.Event) (actions []core.Action, err error) {
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
	return p.host.Step(now, ev)
}

// do does what one action asks for.
func (w *simulation) do(p *process, a *core.Action) {
	w.stats.said[a.Kind]++
	switch a.Kind {
	case core.ActionWake:
		turn := p.wakeTurn
		w.in(p, max(w.Now, p.computer.trueAt(a.At)), func() {
			if p.wakeTurn == turn {
				w.stats.Virtual = time.Duration(w.Now)
				w.tell(p, core.Event{Kind: core.EventWoke})
			}
		})
	case core.ActionAbandon:
		if r := p.asked[a.Request]; r != nil {
			r.dropped = true
			delete(p.asked, a.Request)
		}
	case core.ActionWatch:
		w.watchers[a.Key] = append(w.watchers[a.Key], p)
	case core.ActionUnwatch:
		w.unwatch(p, a.Key)
	case core.ActionRemember:
		w.memory[p.computer][a.Key] = a.Body
	case core.ActionForget:
		delete(w.memory[p.computer], a.Key)
	case core.ActionClosed:
		p.closed = true
	default:
		switch u := p.unit(a.Claim); {
		case a.Kind.IsRequest():
			w.send(p, u, a)
		case u != nil:
			w.hear(u, a)
		case a.Claim == 0 && a.Kind == core.ActionLost:
			w.stats.Losses["session "+a.Reason.String()]++
		}
	}
}

func (w *simulation) unwatch(p *process, key string) {
	w.watchers[key] = slices.DeleteFunc(w.watchers[key], func(other *process) bool { return other == p })
	if len(w.watchers[key]) == 0 {
		delete(w.watchers, key)
	}
}

// hear takes what a client says of a claim.
func (w *simulation) hear(u *unit, a *core.Action) {
	switch a.Kind {
	case core.ActionHeld:
		u.claim.Tenure, u.claim.Epoch, u.claim.Token = string(a.Holder), a.Epoch, a.Token
		w.served(u)
	case core.ActionLaunch:
		w.launched(u)
	case core.ActionAdopted:
		u.claim.Epoch = a.Epoch
	case core.ActionAbsent, core.ActionFound:
		w.stop(u, core.EventRelease.String())
	case core.ActionLost:
		w.stats.Losses[a.Reason.String()]++
		w.stop(u, "lost")
		w.broken(u)
	case core.ActionRefused, core.ActionCannotMaintain:
		w.stats.Refusals[u.what+" "+a.Reason.String()]++
	}
}

// believe ends what has ended in a Step, and tells the checker what is relied on after it, as far
// as that is news.
func (w *simulation) believe(p *process) {
	for i := range p.host.Claims {
		c := &p.host.Claims[i]
		u := p.unit(c.Number)
		switch {
		case u == nil:
		case c.Ended:
			w.stop(u, "lost")
			w.finish(u)
		case c.Kind == core.EventPermit:
			w.believePermit(u, c)
		case u.believes:
			until := p.host.Until(c)
			if until == 0 {
				w.stop(u, "lost")
				break
			}
			if u.claim.Until = p.computer.trueAt(until); u.claim != u.told {
				u.told = u.claim
				w.checker.believes(w.Now, u.claim)
				w.holds.believes(u, w.Now, u.claim.Until)
			}
		}
	}
}

// believePermit does so of a permit. One that was told is relied on while the session is that on
// which it was told; one that was not, if it is granted on the session that there is.
func (w *simulation) believePermit(u *unit, c *world.Claim) {
	p := u.process
	if c.Given {
		return
	}
	permit := u.permit
	permit.Told = c.State == world.Held
	var s world.Session
	if at := p.host.Session(c.On); permit.Told && at != nil {
		s = *at
	} else if n := len(p.host.Sessions); !permit.Told && n > 0 {
		s = p.host.Sessions[n-1]
	}
	permit.Session, permit.Until = s.ID, 0
	if s.ID != "" {
		permit.Until = p.computer.trueAt(s.Until)
	}
	if permit == u.permit {
		return
	}
	u.permit = permit
	w.checker.permit(w.Now, permit)
	if u.believes {
		w.holds.believes(u, w.Now, permit.Until)
	}
}

// stop: a claim is not relied on any more.
func (w *simulation) stop(u *unit, how string) {
	switch {
	case u.what == whatPermit:
		w.checker.permitEnds(&u.permit)
	case u.believes:
		w.checker.stops(&u.claim)
	}
	if u.believes {
		u.believes, u.told = false, check.Claim{}
		w.holds.stops(u, w.Now)
		w.stats.stopped(w, u, how)
	}
}

// finish: the last word on a claim was said. It is disturbed once more, later.
func (w *simulation) finish(u *unit) {
	w.stats.waitOver(w, u)
	p := u.process
	p.units = slices.DeleteFunc(p.units, func(other *unit) bool { return other == u })
	host := p.host
	w.in(p, w.Now+int64(w.life), func() { // to see that it is quiet
		if p.host == host {
			w.tell(p, core.Event{Kind: core.EventCancel, Claim: u.number})
		}
	})
	if s := u.slot; s != nil && s.unit == u {
		w.over(s)
	}
}

// close ends a process in order: its client gives all back.
func (w *simulation) close(p *process) {
	w.say("%s closes", p)
	p.closing = true
	for _, s := range p.slots {
		s.turn++
		if s.unit != nil {
			s.phase = phaseEnding
		}
	}
	for _, u := range p.units {
		w.stop(u, core.EventRelease.String())
		w.stats.waitOver(w, u)
		w.dismiss(u.claim.Tenure)
	}
	host := p.host
	w.in(p, w.Now+closeMost*int64(max(w.life, core.CorruptMin)), func() {
		if p.host == host {
			w.checker.fail(w.Now, check.QuietWhenIdle, "%s has begun to close long ago", p)
		}
	})
	w.tell(p, core.Event{Kind: core.EventClose})
}

// closeMost is how many TTLs a close may take in any weather, far more than it needs.
const closeMost = 8

// gone ends a process that has closed.
func (w *simulation) gone(p *process) {
	if len(p.units) > 0 || !p.host.Client.Idle() {
		w.checker.fail(w.Now, check.QuietWhenIdle, "%s has closed, with %d claims, and is idle: %t", p, len(p.units), p.host.Client.Idle())
		return
	}
	w.crash(p)
	w.restart(p)
}

// crash ends a process without a word. What it sent is still on its way.
func (w *simulation) crash(p *process) {
	for _, u := range p.units {
		w.stop(u, "crashed")
		w.stats.waitOver(w, u)
	}
	for _, s := range p.slots {
		s.turn++
		s.unit, s.phase, s.tenure, s.breaks = nil, phaseThinking, "", breaksAny
	}
	for _, key := range p.host.Watched {
		w.unwatch(p, key)
	}
	p.life = life{}
}

// restart has a process start again after a while.
func (w *simulation) restart(p *process) {
	w.After(1+exponential(w.chance, int64(w.faults.RestartAfter)), func() {
		w.say("%s starts again", p)
		w.start(p)
	})
}
