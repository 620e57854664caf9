package bridge

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

// pair is what the machines of a bridge share: both halves, what is believed of them, and how an event
// reaches them.
type pair struct {
	base.Machine
	register half // the strict tenure
	record   half // lock.json
	held     tenure
	brief    bool       // its caller does not wait for what is looked at after a release
	bodies   []byte     `state:"scratch: of the requests of this Step"`
	event    core.Event `state:"scratch: of this Step"`
}

func newPair(cfg core.Config) (pair, error) {
	m, err := base.New(cfg)
	if err != nil {
		return pair{}, err
	}
	m.Out = make([]core.Action, 0, halves*core.MaxActions)
	return pair{Machine: m, register: half{wake: base.Unset}, record: half{wake: base.Unset}}, nil
}

// tenure is what the caller relies on.
type tenure struct {
	holder       core.HolderID
	epoch, token core.Epoch
	at           int64 // Mono: the deadline that the caller was told
	registerAt   int64 // Mono: that of the version
	recordAt     int64 // Mono: that of lock.json
}

// commanded is a machine whose state says which commands have a meaning.
type commanded interface {
	Accepts(kind core.EventKind) bool
	String() string
}

// start begins a Step of self, and tells both halves of what has happened. The clocks of both go first: what
// one of them does not believe any more is not to be built on. An error leaves everything as it was.
func (p *pair) start(self commanded, now core.Instant, ev *core.Event) error {
	answered, err := p.route(now, ev)
	if err != nil {
		return err
	}
	if !self.Accepts(ev.Kind) {
		return base.ErrEvent(self.String(), ev.Kind)
	}
	before := p.Now
	p.bodies = p.bodies[:0]
	p.Begin(now)
	p.register.said, p.record.said = spoken{}, spoken{}
	kind := core.EventWoke
	if ev.Kind == core.EventChanged {
		kind = ev.Kind
	}
	if answered != nil { // first, since it may be refused
		if err := p.tell(answered, core.EventAnswer); err != nil {
			p.Now = before
			return err
		}
	}
	for _, h := range [...]*half{&p.register, &p.record} {
		if h != answered && h.machine != nil {
			p.order(h, kind, 0)
		}
	}
	return nil
}

// finish ends a Step with one wake for all.
func (p *pair) finish() []core.Action {
	p.Issued = max(p.register.issued(), p.record.issued())
	if at := min(p.Timers.Earliest(), p.register.wake, p.record.wake); at != base.Unset {
		p.Emit(core.ActionWake).At = at
	}
	return p.Out
}

// route admits an event, and says which half an answer is for.
func (p *pair) route(now core.Instant, ev *core.Event) (answered *half, err error) {
	p.event = *ev
	if ev.Kind != core.EventAnswer {
		return nil, p.Admit(now, ev)
	}
	h := &p.register
	if ev.Request%halves == 1 {
		h = &p.record
	}
	id, known := h.find(ev.Request)
	if !known {
		return nil, &core.Error{Code: core.ErrorRequest, Text: "answer to a request that was never issued"}
	}
	kind := ev.Kind
	ev.Kind = core.EventWoke // what it answers is the half's to say
	err = p.Admit(now, ev)
	ev.Kind = kind
	if id == 0 {
		return nil, err
	}
	p.event.Request = id
	return h, err
}

// tell steps a half, and passes on what it says, but for what only we are told.
func (p *pair) tell(h *half, kind core.EventKind) error {
	p.event.Kind = kind
	actions, err := h.machine.Step(p.Now, p.event)
	if err != nil {
		return err
	}
	h.wake = base.Unset
	p.Reach.Inherit(&h.machine.Base().Reach)
	for i := range actions {
		a := &actions[i]
		switch a.Kind {
		case core.ActionWake:
			h.wake = a.At
		case core.ActionHeld:
			h.said.held = true
			p.noteHeld(h, a)
		case core.ActionRenewed, core.ActionDeadline:
			*p.deadlineOf(h) = a.At
		case core.ActionWaiting:
			h.said.waits = true
			p.pass(h, a)
		case core.ActionAdopted:
			p.held.epoch = a.Epoch
			p.pass(h, a)
		case core.ActionContactLost:
			h.said.out = true
		case core.ActionLeft: // we say it of both
		case core.ActionRefused, core.ActionLost, core.ActionReleased, core.ActionCannotMaintain:
			h.said.ended, h.said.why, h.said.class, h.said.seen = a.Kind, a.Reason, a.Class, a.Observed
		default:
			p.pass(h, a)
		}
	}
	return nil
}

// order is tell of what a half takes in the state that it is in.
func (p *pair) order(h *half, kind core.EventKind, wait core.Duration) {
	p.event.Wait, p.event.Brief = wait, p.brief
	if err := p.tell(h, kind); err != nil {
		panic("mopslock: core: " + err.Error())
	}
}

// pass makes an action of a half ours. Its body is copied: it is told twice in some Steps, and
// may write the next one over it.
func (p *pair) pass(h *half, a *core.Action) {
	to := p.Emit(a.Kind)
	*to = *a
	if a.Request == 0 {
		return
	}
	to.Request = h.number(a.Request, p.oddity(h))
	if len(a.Body) > 0 {
		from := len(p.bodies)
		p.bodies = append(p.bodies, a.Body...)
		to.Body = p.bodies[from:len(p.bodies):len(p.bodies)]
	}
}

func (p *pair) oddity(h *half) core.RequestID {
	if h == &p.record {
		return 1
	}
	return 0
}

func (p *pair) deadlineOf(h *half) *int64 {
	if h == &p.record {
		return &p.held.recordAt
	}
	return &p.held.registerAt
}

func (p *pair) noteHeld(h *half, a *core.Action) {
	*p.deadlineOf(h) = a.At
	if h == &p.register {
		p.held.holder, p.held.epoch, p.held.token = a.Holder, a.Epoch, a.Token
	}
}

// issued is the greatest number that a host knows of a half's requests, or one above it.
func (h *half) issued() core.RequestID {
	n := h.before
	if h.machine != nil {
		n += uint64(h.machine.Base().Issued)
	}
	return core.RequestID(halves * n)
}

// say tells how long both may be believed, where that has changed: until the earlier of their deadlines.
func (p *pair) say() {
	at := p.believedUntil()
	if at == p.held.at {
		return
	}
	kind := core.ActionRenewed
	if at < p.held.at {
		kind = core.ActionDeadline
	}
	p.held.at = at
	p.Emit(kind).At = at
}

// hold tells that both are held.
func (p *pair) hold() {
	h := &p.held
	h.at = p.believedUntil()
	a := p.Emit(core.ActionHeld)
	a.At, a.Wall, a.Holder, a.Epoch, a.Token = h.at, p.Now.Wall, h.holder, h.epoch, h.token
}

// must is for what cannot fail: what we were made with was validated by the same rules.
func must(err error) {
	if err != nil {
		panic("mopslock: core: " + err.Error())
	}
}

// configOfRegister is the Config of a machine of the strict tenure, and configOfRecord that of one of lock.json.
func (p *pair) configOfRegister(kind core.MachineKind) core.Config {
	cfg := p.Cfg
	cfg.Machine, cfg.Protocol, cfg.Seed = kind, core.ProtocolStrict, p.RNG.Seed()
	cfg.AcquireMargin, cfg.FleetExpire, cfg.Renewal = 0, 0, 0
	return cfg
}

func (p *pair) configOfRecord(kind core.MachineKind) core.Config {
	cfg := p.Cfg
	cfg.Machine, cfg.Protocol, cfg.Seed = kind, core.ProtocolLastWriter, p.RNG.Seed()
	cfg.Expiry, cfg.StampSpread, cfg.Label, cfg.Boot = core.ExpiryWall, 0, "", ""
	cfg.LastEpoch, cfg.LastAt, cfg.SeenFingerprint, cfg.SeenSince = 0, 0, 0, 0
	return cfg
}
