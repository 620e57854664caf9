package client

import (
	"strconv"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/alarms"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/octets"
	"github.com/mopslock/mopslock/core/internal/outbox"
	"github.com/mopslock/mopslock/core/internal/resolve"
)

// Client is one process and its claims on one store. Its zero value is of no use; see New.
type Client struct {
	rules

	cfg core.Config
	rng base.RNG
	now core.Instant `state:"exact: every Step overwrites it, and time never goes back"` // of the latest Step

	outbox outbox.Outbox
	more   bool  // the latest Step has ended with more
	todo   []job // in the order in which they came
	alarms alarms.Alarms

	last           uint64 // the newest claim
	claims         map[uint64]*claim
	oldest, newest *claim
	names          map[string]*nameState
	memory         memory
	watches        watches
	sessions       []*session
	sessionSerial  uint64
	semaphores     []*semaphore
	store          abilities
	clock          storeClock
	cleanups       []*cleanup // that were not sent yet
	tidying        int        // requests of cleanups that were not answered yet

	closing bool
	served  bool // the sessions were asked to end
	closed  bool
}

// New makes a client that was told nothing yet. It validates the whole Config; the error
// lists every bad field.
func New(cfg core.Config) (*Client, error) {
	if err := checkConfig(&cfg); err != nil {
		return nil, err
	}
	c := &Client{
		cfg: cfg, rng: base.NewRNG(cfg.Seed), now: core.Instant{Mono: -core.MaxClockRange},
		claims: map[uint64]*claim{}, names: map[string]*nameState{}, watches: watches{}, memory: memory{names: map[string]*remembered{}},
	}
	c.outbox.Init(&cfg, &c.alarms)
	if cfg.OwnStore {
		c.store.creates = resolve.Honoured
	}
	switch {
	case cfg.NoCreate:
		c.store.creates, c.store.seen = resolve.Ignored, "the store has no such request"
	case cfg.NoList:
		c.store.creates, c.store.seen = resolve.Ignored, "the store has no list, which strict needs as well"
	}
	return c, nil
}

// Step implements core.Stepper.
func (c *Client) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if err := c.admit(now, &ev); err != nil {
		return nil, err
	}
	var terms *pending
	if begins(&ev) {
		var err error
		if terms, err = c.check(now, &ev); err != nil {
			return nil, err
		}
	}
	c.now, c.more = now, false
	c.outbox.Reset()
	switch {
	case terms != nil:
		c.begin(terms, ev.Claim)
	case ev.Kind == core.EventAnswer:
		c.answer(&ev)
	case ev.Kind == core.EventChanged:
		c.changed(string(ev.Key))
	case ev.Kind == core.EventClose:
		c.close()
	case ev.Kind != core.EventWoke:
		if cl := c.claims[ev.Claim]; cl != nil && cl.state != claimEnded {
			cl.command(c, order{ev.Kind, ev.Brief, ev.Outcome, ev.Result})
		}
	}
	c.work()
	return c.finish(), nil
}

// work does what is due, as far as one Step has room.
func (c *Client) work() {
	for c.outbox.HasRoom() {
		switch {
		case c.outbox.HasNext():
			c.tooLate(c.outbox.SendNext(c.now.Mono))
		case len(c.todo) > 0:
			j := c.todo[0]
			c.todo = rest(c.todo)
			c.do(j)
		case c.alarms.IsDue(c.now.Mono):
			a := c.alarms.First()
			c.alarms.Disarm(a)
			c.ring(a)
		default:
			if !c.isAtEnd() {
				return
			}
			c.end()
		}
	}
}

// finish ends a Step: with more, or one wake, or nothing.
func (c *Client) finish() []core.Action {
	switch {
	case len(c.todo) > 0 || c.alarms.IsDue(c.now.Mono) || c.outbox.HasNext() || c.isAtEnd():
		c.more = true
		c.outbox.Emit(core.ActionMore)
	case c.alarms.First() != nil:
		c.outbox.Emit(core.ActionWake).At = c.alarms.First().At
	}
	return c.outbox.All()
}

// admit refuses what breaks the contract, before anything is changed.
func (c *Client) admit(now core.Instant, ev *core.Event) error {
	code := core.ErrorEvent
	var text string
	switch {
	case now.Mono < c.now.Mono:
		code, text = core.ErrorClock, "monotonic clock went back from "+strconv.FormatInt(c.now.Mono, 10)+" to "+strconv.FormatInt(now.Mono, 10)
	case now.Mono > core.MaxClockRange || now.Mono < -core.MaxClockRange || now.Wall > core.MaxClockRange || now.Wall < -core.MaxClockRange:
		code, text = core.ErrorClock, "clock out of range"
	case c.more && ev.Kind != core.EventWoke:
		text = "event " + ev.Kind.String() + " while there is more: step with woke first"
	case ev.Kind == core.EventAnswer:
		code, text = c.outbox.Check(ev)
	case ev.Kind == core.EventWoke || ev.Kind == core.EventClose || ev.Kind == core.EventChanged:
	case !isCommand(ev.Kind):
		text = "event " + ev.Kind.String() + " has no meaning for a client"
	case ev.Claim == 0:
		text = ev.Kind.String() + ": a command needs a claim"
	case ev.Wait < core.Forever || ev.Wait > core.MaxWait:
		text = ev.Kind.String() + ": wait " + octets.DurationText(int64(ev.Wait)) + " is out of range"
	case ev.Terms != nil && !begins(ev):
		text = ev.Kind.String() + ": has no terms"
	case begins(ev) && ev.Claim <= c.last:
		text = ev.Kind.String() + ": claim " + strconv.FormatUint(ev.Claim, 10) + " is not greater than " + strconv.FormatUint(c.last, 10)
	case begins(ev) && ev.Terms == nil:
		text = ev.Kind.String() + ": needs terms"
	case !begins(ev) && ev.Claim > c.last:
		text = ev.Kind.String() + ": there was no claim " + strconv.FormatUint(ev.Claim, 10)
	case ev.Kind == core.EventEnded && ev.Outcome != core.OutcomeYes && ev.Outcome != core.OutcomeNo:
		text = "ended: the outcome must be yes or no"
	}
	if text == "" {
		return nil
	}
	return &core.Error{Code: code, Text: text}
}

// isCommand reports whether an event is about a claim.
func isCommand(kind core.EventKind) bool {
	switch kind {
	case core.EventAcquire, core.EventAccompany, core.EventResume, core.EventPermit, core.EventLimit, core.EventInvoke,
		core.EventRemote, core.EventLook, core.EventWatch, core.EventBreak,
		core.EventRelease, core.EventCancel, core.EventLeave, core.EventEnded:
		return true
	}
	return false
}

// begins reports whether an event begins a claim. A release does that only with terms.
func begins(ev *core.Event) bool {
	switch ev.Kind {
	case core.EventCancel, core.EventLeave, core.EventEnded:
		return false
	case core.EventRelease:
		return ev.Terms != nil
	}
	return isCommand(ev.Kind)
}

// Idle implements core.Stepper.
func (c *Client) Idle() bool {
	return !c.more && len(c.claims) == 0 && c.alarms.First() == nil && c.outbox.IsEmpty()
}

// String implements core.Stepper.
func (c *Client) String() string {
	switch {
	case c.closed:
		return core.ClientClosed.String()
	case c.closing:
		return core.ClientClosing.String()
	}
	return core.ClientOpen.String()
}

// cleanup is one request for tidiness, whose outcome does not matter: sent after a while,
// or when the client closes.
type cleanup struct {
	alarms.Alarm
	outbox.Sender
	action core.Action
}

// cleanUp deletes an object after a while.
func (c *Client) cleanUp(key string, after core.Duration) {
	e := &cleanup{action: core.Action{Kind: core.ActionDelete, Key: key, Limit: resolve.TidyLimit}}
	c.cleanups = append(c.cleanups, e)
	c.alarms.Arm(&e.Alarm, e, c.now.Mono+int64(after))
}

// onAlarm implements alarmHandler. A store that asks to be left alone is, for as long as it says. A client
// that closes does not wait for that: what is left is garbage, as that of a process that dies.
func (e *cleanup) onAlarm(c *Client) {
	rests := c.outbox.RestUntil() > c.now.Mono
	if rests && !c.served {
		c.alarms.Arm(&e.Alarm, e, c.outbox.RestUntil())
		return
	}
	c.cleanups = without(c.cleanups, e)
	if rests {
		return
	}
	c.tidying++
	c.outbox.Send(e, outbox.Usual, 0, &e.action, c.now.Mono)
}

// close asks every claim to end: what is held is released, what waits is cancelled,
// companions leave.
func (c *Client) close() {
	if c.closing {
		return
	}
	c.closing = true
	for cl := c.oldest; cl != nil; cl = cl.next {
		c.post(job{claim: cl, kind: core.EventClose})
	}
	for _, s := range c.semaphores {
		s.leave(c)
	}
}

// stop ends a claim of a client that closes.
func (cl *claim) stop(c *Client) {
	switch kind := cl.as.stop(); {
	case cl.state == claimEnded: // its release was told, and it looks for a late renewal of ours
		if _, ok := cl.as.(leaseRole); ok {
			cl.hurry(c)
		}
	case cl.state.isPending():
		cl.refuse(c, core.ReasonCancelled, core.ClassNone)
	case kind != 0:
		cl.as.command(c, cl, order{kind: kind, brief: true})
	}
}

// isAtEnd reports whether there is a step of closing to be taken.
func (c *Client) isAtEnd() bool {
	if !c.closing || c.closed || len(c.claims) > 0 || len(c.semaphores) > 0 || len(c.todo) > 0 {
		return false
	}
	if !c.served {
		return true
	}
	return len(c.sessions) == 0 && c.tidying == 0 && len(c.cleanups) == 0
}

// end takes the next step of closing: the sessions, which must outlive every release on
// them, and what was put off; then the end.
func (c *Client) end() {
	if c.served {
		c.closed = true
		c.outbox.Emit(core.ActionClosed)
		return
	}
	c.served = true
	for _, s := range c.sessions {
		s.leave(c)
	}
	if u := c.clock.unit; u != nil {
		c.clock.unit = nil
		u.drop(c)
	}
	if u := c.store.asking; u != nil {
		c.store.asking = nil
		u.drop(c)
	}
	c.sweepTried(0)
	if c.clock.owner != "" {
		c.cleanUp(core.StoreClockPrefix+c.clock.owner, 0)
	}
	for _, e := range c.cleanups {
		c.alarms.Arm(&e.Alarm, e, c.now.Mono)
	}
}

func (c *Client) uuid() string { return string(base.SeedUUID(c.seed())) }
