package client

import (
	"strconv"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/capability"
	"github.com/mopslock/mopslock/core/internal/octets"
)

// Bounds of one Step. A machine's own step returns core.MaxActions actions and one body at
// the most, and a session may be stepped before the lease on it, so the client takes no
// other work up when less than that is left.
const (
	mostActions = core.MaxClientActions
	roomFor     = 3 * core.MaxActions
	// roomyBytes of texts and bodies leave room in one message for a record and what
	// belongs to it.
	roomyBytes = core.MaxMessage - core.MaxRecord - 24<<10
)

// Client is one process and its claims on one store. Its zero value is of no use; see New.
type Client struct {
	base.Mutant // nothing in a product

	cfg core.Config
	rng base.RNG
	now core.Instant // of the latest Step

	out   []core.Action
	arena []byte // bodies of out
	bytes int    // of texts and bodies in out
	more  bool   // the latest Step has ended with more

	todo   []job // in the order in which they came
	alarms alarms

	last           uint64 // the newest claim
	claims         map[uint64]*claim
	oldest, newest *claim
	names          map[string]*nameState
	known          rememberedNames
	watched        map[string]*watch
	sessions       []*session
	sessionSerial  uint64
	semaphores     []*semaphore
	requests       requests
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
		out:    make([]core.Action, 0, mostActions),
		claims: map[uint64]*claim{}, names: map[string]*nameState{}, watched: map[string]*watch{},
	}
	c.requests.init(&cfg)
	if cfg.OwnStore {
		c.store.creates = capability.Honoured
	}
	switch {
	case cfg.NoCreate:
		c.store.creates, c.store.seen = capability.Ignored, "the store has no such request"
	case cfg.NoList:
		c.store.creates, c.store.seen = capability.Ignored, "the store has no list, which strict needs as well"
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
	c.now, c.out, c.arena, c.bytes, c.more = now, c.out[:0], c.arena[:0], 0, false
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
			c.command(cl, order{ev.Kind, ev.Brief, ev.Outcome, ev.Result})
		}
	}
	c.work()
	return c.finish(), nil
}

// work does what is due, as far as one Step has room.
func (c *Client) work() {
	for c.hasRoom() {
		q := c.requests.next()
		switch {
		case q != nil:
			c.start(q)
		case len(c.todo) > 0:
			j := c.todo[0]
			c.todo = rest(c.todo)
			c.do(j)
		case c.alarms.isDue(c.now.Mono):
			a := c.alarms.first()
			c.alarms.disarm(a)
			a.rings.(alarmHandler).onAlarm(c)
		default:
			if !c.isAtEnd() {
				return
			}
			c.end()
		}
	}
}

func (c *Client) hasRoom() bool {
	return len(c.out)+roomFor < mostActions && c.bytes <= roomyBytes
}

// finish ends a Step: with more, or one wake, or nothing.
func (c *Client) finish() []core.Action {
	switch {
	case len(c.todo) > 0 || c.alarms.isDue(c.now.Mono) || c.requests.next() != nil || c.isAtEnd():
		c.more = true
		c.emit(core.ActionMore)
	case c.alarms.first() != nil:
		c.emit(core.ActionWake).At = c.alarms.first().at
	}
	return c.out
}

// emit adds an action, which is the caller's to fill in where it stands.
func (c *Client) emit(kind core.ActionKind) *core.Action {
	n := len(c.out)
	c.out = c.out[:n+1]
	a := &c.out[n]
	*a = core.Action{}
	a.Kind = kind
	return a
}

// carry keeps a machine's action: its bytes are the machine's, which may be stepped again.
func (c *Client) carry(a *core.Action) *core.Action {
	n := len(c.out)
	c.out = c.out[:n+1]
	to := &c.out[n]
	*to = *a
	if len(a.Body) > 0 {
		to.Body = c.keep(a.Body)
	}
	if a.Observed != nil {
		seen := *a.Observed
		base.DetachObserved(&seen)
		to.Observed = &seen
		c.bytes += len(seen.Permits) + 2048
	}
	c.bytes += len(a.Key) + len(a.After) + 128
	return to
}

// keep copies bytes that must be good until the next Step.
func (c *Client) keep(body []byte) []byte {
	from := len(c.arena)
	c.arena = append(c.arena, body...)
	c.bytes += len(body)
	return c.arena[from:len(c.arena):len(c.arena)]
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
		code, text = c.requests.check(ev)
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
	return !c.more && len(c.claims) == 0 && c.alarms.first() == nil && c.requests.isEmpty()
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
	alarm
	action core.Action
}

// cleanUp deletes an object after a while.
func (c *Client) cleanUp(key string, after core.Duration) {
	e := &cleanup{action: core.Action{Kind: core.ActionDelete, Key: key, Limit: capability.TidyLimit}}
	c.cleanups = append(c.cleanups, e)
	c.alarms.arm(&e.alarm, e, c.now.Mono+int64(after))
}

// onAlarm implements alarmHandler. A store that asks to be left alone is, for as long as it says. A client
// that closes does not wait for that: what is left is garbage, as that of a process that dies.
func (e *cleanup) onAlarm(c *Client) {
	rests := c.requests.restUntil > c.now.Mono
	if rests && !c.served {
		c.alarms.arm(&e.alarm, e, c.requests.restUntil)
		return
	}
	c.cleanups = without(c.cleanups, e)
	if rests {
		return
	}
	c.tidying++
	c.request(flight{verb: e.action.Kind, lane: laneUsual, cleanup: true}, &e.action, 0)
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

// stopClaim ends a claim of a client that closes.
func (c *Client) stopClaim(cl *claim) {
	switch kind := cl.as.stop(); {
	case cl.state == claimEnded: // its release was told, and it looks for a late renewal of ours
		if _, ok := cl.as.(leaseRole); ok {
			c.hurry(cl)
		}
	case cl.state.isPending():
		c.refuse(cl, core.ReasonCancelled, core.ClassNone)
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
		c.emit(core.ActionClosed)
		return
	}
	c.served = true
	for _, s := range c.sessions {
		s.leave(c)
	}
	if u := c.clock.unit; u != nil {
		c.clock.unit = nil
		c.drop(u)
	}
	if u := c.store.asking; u != nil {
		c.store.asking = nil
		c.drop(u)
	}
	c.sweepTried(0)
	if c.clock.owner != "" {
		c.cleanUp(core.StoreClockPrefix+c.clock.owner, 0)
	}
	for _, e := range c.cleanups {
		c.alarms.arm(&e.alarm, e, c.now.Mono)
	}
}

func (c *Client) uuid() string { return string(base.SeedUUID(c.seed())) }
