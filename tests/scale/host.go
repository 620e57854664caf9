package main

import (
	"encoding/hex"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// process is an orchestrator: so many slots, and a host for each store prefix that
// its names lie under.
type process struct {
	number int
	hosts  []*host
	slots  []*slot
}

// host is what package host is to a process and a prefix: a session for all its
// leases, the newest sample of the store's clock, and what it knows of the store.
type host struct {
	process *process
	shard   int
	owner   string // of its samples of the store's clock
	units   []*unit

	session *unit // opening or in force
	sid     []byte
	until   int64
	end     core.Reason
	due     int64 // when the renewal under way had to begin, 0 for none
	put     int64 // when the latest beat was sent
	asked   int   // requests of the renewal under way

	stamp, stampAt int64 // the newest sample
	sampling       *unit
	sampledAt      int64 // when the latest was begun
	askers         []*unit

	reached  bool  // the store has answered something
	card     *unit // asks whether the store honours create-if-absent
	cardRead bool  // it does
	wantCard []*unit
}

// unit is one machine with its host's side.
type unit struct {
	host    *host
	machine core.Stepper
	kind    core.MachineKind // 0: a probe
	slot    *slot            // of a lease, and of a probe of its name
	at      int              // in its host's units

	wakeAt     int64 // when the machine wants to be woken, or never
	queued     int64 // the earliest wake that stands in the queue for it, or never
	answeredBy int64 // a request is under way until then at most
	asking     uint64
	gone       bool

	second, sent int32 // requests in this second
}

const never = core.Never

// newUnit makes a machine for a host.
func (w *world) newUnit(h *host, cfg *core.Config, s *slot) *unit {
	cfg.Protocol, cfg.Seed, cfg.TTL, cfg.StampUnit = core.ProtocolStrict, w.chance.seed16(), core.TTL(w.plan.ttl), stampUnit
	cfg.Expiry, cfg.Host, cfg.PID = core.ExpiryCalibrated, "orchestrator", "1"
	m, err := machines.New(*cfg)
	if err != nil {
		panic("scale: " + err.Error())
	}
	return w.enroll(h, m, cfg.Machine, s)
}

func (w *world) enroll(h *host, m core.Stepper, kind core.MachineKind, s *slot) *unit {
	u := &unit{host: h, machine: m, kind: kind, slot: s, wakeAt: never, queued: never, at: len(h.units)}
	h.units = append(h.units, u)
	return u
}

// dismiss forgets a machine that has said its last word, or whose process died.
func (w *world) dismiss(u *unit) {
	if u.gone {
		return
	}
	u.gone, u.machine = true, nil
	h := u.host
	last := h.units[len(h.units)-1]
	h.units[u.at], last.at = last, u.at
	h.units = h.units[:len(h.units)-1]
}

// open makes the host's session, if it has none.
func (w *world) open(h *host) {
	if h.session != nil {
		return
	}
	h.session = w.newUnit(h, &core.Config{Machine: core.MachineSession}, nil)
	w.tell(h.session, core.Event{Kind: core.EventBegin})
}

// heedSession takes what a session says: its leases hear that it has begun, or
// ended, and of a renewal nothing.
func (w *world) heedSession(u *unit, a *core.Action) {
	h := u.host
	switch a.Kind {
	case core.ActionHeld:
		h.sid, h.until, h.due, h.asked = []byte(a.Holder), a.At, 0, 0
		w.wakeAll(h, func(other *unit) bool { return other.slot.phase == phaseWaiting })
	case core.ActionRenewed:
		w.stats.renewed(w, h)
		h.until, h.due, h.asked = a.At, 0, 0
	case core.ActionLost:
		w.stats.count(w, &w.stats.dead)
		h.sid, h.until, h.due, h.end, h.session = nil, 0, 0, a.Reason, nil
		w.dismiss(u)
		w.wakeAll(h, func(*unit) bool { return true })
		for _, other := range h.units {
			if other.kind == core.MachineLease && other.slot.phase == phaseWaiting {
				w.open(h)
				return
			}
		}
	case core.ActionWarned: // its writes have not worked yet: it goes on
	default:
		panic("scale: a session says " + a.Kind.String())
	}
}

// wakeAll wakes the leases of a host, as soon as the Step under way is through.
func (w *world) wakeAll(h *host, whom func(*unit) bool) {
	for _, u := range h.units {
		if u.kind == core.MachineLease && whom(u) {
			w.tell(u, core.Event{Kind: core.EventWoke})
		}
	}
}

// sampleStoreClock takes a sample of the store's clock, one at a time and at most one in a
// minute; otherwise the asker hears at once that there is none.
func (w *world) sampleStoreClock(h *host, asker *unit) {
	if h.sampling != nil {
		h.askers = append(h.askers, asker)
		return
	}
	if h.sampledAt != 0 && w.now-h.sampledAt < int64(core.SampleEach) {
		w.tell(asker, core.Event{Kind: core.EventWoke})
		return
	}
	if h.owner == "" {
		seed := w.chance.seed16()
		h.owner = hex.EncodeToString(seed[:])
	}
	h.sampledAt, h.askers = w.now, append(h.askers, asker)
	h.sampling = w.newUnit(h, &core.Config{Machine: core.MachineStoreClockSample, Owner: h.owner}, nil)
	w.tell(h.sampling, core.Event{Kind: core.EventBegin})
}

// heedSample keeps a sample, and tells those that asked for it.
func (w *world) heedSample(u *unit, a *core.Action) {
	h := u.host
	if a.Kind == core.ActionStoreClockSampled && a.At > h.stampAt {
		h.stamp, h.stampAt = a.Wall, a.At
	}
	for _, asker := range h.askers {
		w.tell(asker, core.Event{Kind: core.EventWoke})
	}
	h.sampling, h.askers = nil, nil
	w.dismiss(u)
}

// probe is a host's own question, as package host asks it before a claim: is there a
// lock.json under the name; and once a Host, by the store's card, whether the store
// honours create-if-absent. Its retries are those of host/probe.go.
type probe struct {
	keys  []string // of what is asked, in this order
	verbs []core.ActionKind
	step  int
	own   string // is tried instead of the card where that is throttled; "" is a probe of something else

	begun    int64
	answered bool // the store has said yes or no to something
	anew     bool // after a while it is as if it had just begun
	asked    core.RequestID
	sent     bool
	retries  int
	wakeAt   int64
	failed   bool
	out      []core.Action
}

const (
	probePatience = 5 * time.Second
	betweenWrites = 1200 * time.Millisecond
)

// Step implements core.Stepper.
func (p *probe) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	p.out = p.out[:0]
	switch {
	case ev.Kind == core.EventBegin:
		p.begun = now.Mono
		p.ask()
	case ev.Kind == core.EventAnswer && ev.Outcome == core.OutcomeUnknown:
		p.sent = false
		p.stepAside(ev.Class)
		p.unknown(now, ev.Class)
	case ev.Kind == core.EventAnswer:
		p.sent, p.answered = false, true
		if p.verbs[p.step] != core.ActionGet {
			p.retries = 0
		}
		switch p.step++; {
		case p.step == len(p.keys):
		case p.keys[0] == p.own: // that again
			p.wakeAt = now.Mono + int64(betweenWrites)
		default:
			p.ask()
		}
	case !p.sent && now.Mono >= p.wakeAt:
		p.ask()
	}
	if !p.sent && !p.failed && p.step < len(p.keys) {
		p.out = append(p.out, core.Action{Kind: core.ActionWake, At: p.wakeAt})
	}
	return p.out, nil
}

func (p *probe) ask() {
	p.asked++
	p.sent = true
	a := core.Action{Kind: p.verbs[p.step], Key: p.keys[p.step], Limit: probePatience, Request: p.asked}
	if a.Kind == core.ActionCreate {
		a.Body = []byte("{}")
	}
	p.out = append(p.out, a)
}

// stepAside tries an object of its own where the card is asked for too much.
func (p *probe) stepAside(class core.Class) {
	if p.own == "" || class != core.ClassThrottled || p.verbs[p.step] != core.ActionCreate || p.keys[p.step] == p.own {
		return
	}
	p.keys = []string{p.own, p.own, p.own}
	p.verbs = []core.ActionKind{core.ActionCreate, core.ActionCreate, core.ActionDelete}
}

// unknown: a store that has never answered is given up after a while.
func (p *probe) unknown(now core.Instant, class core.Class) {
	p.step = 0
	switch over := now.Mono-p.begun >= int64(probePatience); {
	case over && !p.answered:
		p.failed = true
		return
	case over && p.anew:
		p.begun, p.retries = now.Mono, 0
		p.ask()
		return
	}
	p.retries = min(p.retries+1, 5)
	p.wakeAt = now.Mono + int64(100*time.Millisecond)<<p.retries
	if class == core.ClassThrottled {
		p.wakeAt = max(p.wakeAt, now.Mono+int64(betweenWrites))
	}
	if end := p.begun + int64(probePatience); end > now.Mono {
		p.wakeAt = min(p.wakeAt, end)
	}
}

// Idle implements core.Stepper.
func (p *probe) Idle() bool { return p.failed || p.step == len(p.keys) }

// String implements core.Stepper.
func (p *probe) String() string { return "probing" }

// triedPrefix is for what is tried instead of the card.
const triedPrefix = core.RegisterDir + "/d/"

// probed goes on with those that waited for a probe that has ended.
func (w *world) probed(u *unit) {
	p := u.machine.(*probe)
	h := u.host
	failed := p.failed
	w.dismiss(u)
	if u == h.card {
		h.card, h.cardRead = nil, !failed
		waiting := h.wantCard
		h.wantCard = nil
		for _, other := range waiting {
			w.claim(other.slot, failed)
		}
		return
	}
	switch {
	case failed || h.cardRead:
		w.claim(u.slot, failed)
	default:
		h.wantCard = append(h.wantCard, u)
		w.askCard(h)
	}
}

// askCard asks for the card: a get, and a create that must be told that it is there.
func (w *world) askCard(h *host) {
	if h.card != nil {
		return
	}
	const card = core.RegisterDir + "/store.json"
	seed := w.chance.seed16()
	h.card = w.enroll(h, &probe{
		keys: []string{card, card}, verbs: []core.ActionKind{core.ActionGet, core.ActionCreate}, answered: true, anew: true,
		own: triedPrefix + hex.EncodeToString(seed[:]) + "/v",
	}, 0, nil)
	w.tell(h.card, core.Event{Kind: core.EventBegin})
}
