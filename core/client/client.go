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

	last          uint64   // the newest claim
	claims        []*claim // in the order in which they came, which is that of their numbers
	names         map[string]*nameState
	memory        memory
	watches       watches
	sessions      []*session
	sessionSerial uint64
	semaphores    []*semaphore
	store         abilities
	clock         storeClock
	cleanups      []*cleanup // that were not sent yet
	tidying       int        // requests of cleanups that were not answered yet

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
		names: map[string]*nameState{}, watches: watches{}, memory: memory{names: map[string]*remembered{}},
	}
	c.outbox.Init(&cfg, &c.alarms)
	if cfg.OwnStore && !cfg.Probes {
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
		if cl, _ := c.claim(ev.Claim); cl != nil && cl.state != claimEnded {
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
	e := &cleanup{action: core.Action{Kind: core.ActionDelete, Key: key, Limit: resolve.TidyLimit, Purpose: core.PurposeCleanup}}
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
	for _, cl := range c.claims {
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
		if r, ok := cl.as.(leaseRole); ok {
			r.hurry(c, cl)
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
	c.store.sweep(c, 0)
	if c.clock.owner != "" {
		c.cleanUp(core.StoreClockPrefix+c.clock.owner, 0)
	}
	for _, e := range c.cleanups {
		c.alarms.Arm(&e.Alarm, e, c.now.Mono)
	}
}

func (c *Client) uuid() string { return string(base.SeedUUID(c.seed())) }

// unit is one machine of the client's, and what it waits for.
type unit struct {
	alarms.Alarm
	outbox.Sender
	watching
	machine base.Reporting
	owner   owner
	claim   uint64 // for which its requests are; 0: for the client itself
	gone    bool   // nothing is told to it any more
}

// owner hears what a unit's machine says.
type owner interface {
	core.Part
	// hear takes a notice; requests and the wake were taken before.
	hear(c *Client, u *unit, a *core.Action)
	// stepped follows the machine's state, after all actions of one of its steps.
	stepped(c *Client, u *unit)
}

// The lanes of a machine, as a mask of the request's id: a lease has one request in
// flight that matters; an invocation one of its own, with an odd id, and one of the lease
// within; a race has four.
const (
	twoLanes  core.RequestID = 1
	fourLanes core.RequestID = 3
)

// job is work that waits for its turn: an event for a unit, or for a claim.
type job struct {
	unit  *unit
	claim *claim
	kind  core.EventKind
	epoch core.Epoch
	// reason and class, of begin to a claim, are the prober's, which the claim has waited for;
	// class, of cancel to one, is why there can be no session.
	reason core.Reason
	class  core.Class
}

// post adds work. What is to be told to a unit is told in the order of the calls.
func (c *Client) post(j job) { c.todo = append(c.todo, j) }

func (c *Client) do(j job) {
	switch {
	case j.claim != nil && j.kind == core.EventBegin:
		j.claim.storeTried(c, j.reason, j.class)
	case j.claim != nil && j.kind == core.EventCancel:
		j.claim.noSession(c, j.class)
	case j.claim != nil && j.kind == core.EventClose:
		j.claim.stop(c)
	case j.claim != nil:
		j.claim.tell(c, j.kind, j.epoch)
	case !j.unit.gone:
		j.unit.step(c, core.Event{Kind: j.kind, Epoch: j.epoch})
	}
}

// send takes a request of a unit's machine.
func (u *unit) send(c *Client, a *core.Action) {
	lane := outbox.Usual
	if a.Kind == core.ActionCreateResult || a.Kind == core.ActionPutResult {
		lane = outbox.Transfer
	} else if u.keeps() {
		lane = outbox.Beat
	}
	a.Purpose = u.purpose(a)
	c.outbox.Send(u, lane, u.claim, a, c.now.Mono)
}

// keeps reports whether a claim ends if the machine's requests are late. What keeps a permit is its session.
func (u *unit) keeps() bool {
	switch of := u.owner.(type) {
	case *session:
		return true
	case *claim:
		return of.state.isHeld()
	}
	return false
}

// answer takes the store's answer to a request.
func (c *Client) answer(ev *core.Event) {
	f := c.outbox.Answer(ev, c.now.Mono)
	if ev.Outcome != core.OutcomeUnknown {
		c.store.reach.Note(ev, base.Flight{Verb: f.Verb}, c.now.Mono)
	}
	c.answered(&f, ev)
}

// tooLate takes a request that has waited too long to be sent, if there is one.
func (c *Client) tooLate(f *outbox.Flight) {
	if f != nil {
		c.answered(f, &core.Event{Kind: core.EventAnswer, Outcome: core.OutcomeUnknown, Class: core.ClassUnreachable})
	}
}

// answered hands an answer to who wants it.
func (c *Client) answered(f *outbox.Flight, ev *core.Event) {
	switch u := f.Owner.(type) {
	case *cleanup:
		c.tidying--
	case *unit:
		ev.Request, ev.RetryAfter = f.OwnersID, 0
		if ev.Class == core.ClassUnsupported && u != c.store.asking {
			ev.Class = core.ClassOther
		}
		u.feed(c, ev)
		if cl, ok := u.owner.(*claim); ok {
			cl.follow(c, f, ev)
		}
	}
}

// ring does what an alarm was set for.
func (c *Client) ring(a *alarms.Alarm) {
	if q, ok := a.Rings.(*outbox.Queued); ok {
		c.tooLate(c.outbox.Ring(q))
		return
	}
	a.Rings.(alarmHandler).onAlarm(c)
}

// alarmHandler does what an alarm was set for.
type alarmHandler interface{ onAlarm(c *Client) }

// onAlarm implements alarmHandler.
func (u *unit) onAlarm(c *Client) {
	u.feed(c, &core.Event{Kind: core.EventWoke})
}

// step tells a machine what happened, and carries out what it answers.
func (u *unit) step(c *Client, ev core.Event) { u.feed(c, &ev) }

// feed is step with an event that is the client's to change. The event stays off the heap,
// so no interface but the machine's sees it.
func (u *unit) feed(c *Client, ev *core.Event) {
	if cl, ok := u.owner.(*claim); ok && cl.protocol == core.ProtocolStrict {
		c.inform(cl.session, ev)
	} else if of, ok := u.owner.(*semaphore); ok {
		if ev.Kind == core.EventChanged {
			of.hint()
		}
		c.inform(of.session, ev)
	}
	if u.gone {
		return
	}
	actions, err := u.machine.Step(c.now, *ev)
	if err != nil {
		panic("mopslock: core: client: " + err.Error()) // the client broke the contract
	}
	wake := base.Unset
	for i := range actions {
		switch a := &actions[i]; {
		case a.Kind.IsRequest():
			u.send(c, a)
		case a.Kind == core.ActionWake:
			wake = a.At
		case a.Kind == core.ActionSampleStoreClock:
			c.clock.sample(c, u)
		default:
			u.owner.hear(c, u, a)
		}
	}
	if u.gone { // one of its notices has ended it
		return
	}
	c.alarms.Arm(&u.Alarm, u, wake)
	u.owner.stepped(c, u)
}

// watch asks for changes of one key, or with "" of none.
func (u *unit) watch(c *Client, key string) {
	switch {
	case key == "":
		c.watches.set(&c.outbox, u)
	case c.cfg.Watches:
		c.watches.set(&c.outbox, u, key)
	}
}

// drop forgets a unit. Nobody wants the answers to its requests any more.
func (u *unit) drop(c *Client) {
	u.gone = true
	u.watch(c, "")
	c.alarms.Disarm(&u.Alarm)
	c.outbox.Abandon(u)
}

// machine makes one, with a seed of its own.
func (c *Client) machine(cfg core.Config) (base.Reporting, error) {
	return c.newMachine(cfg, c.seed(), c.cfg.Seed)
}

// seed is fresh for every machine.
func (c *Client) seed() (seed [16]byte) {
	for i := 0; i < len(seed); i += 8 {
		n := c.rng.Next()
		for k := range 8 {
			seed[i+k] = byte(n >> (8 * k))
		}
	}
	if seed == [16]byte{} {
		seed[0] = 1
	}
	return seed
}
