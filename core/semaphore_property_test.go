package core

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A crowd is a world of processes that share one semaphore, each with a session and
// views of its own. Rapid decides what happens next, as in a strictSim. What must be
// true at all times is checked by name, against the store and not against what a
// machine says of itself.
type crowd struct {
	*world
	rt      *rapid.T
	ttl     time.Duration
	boots   bool
	born    int
	living  []*process
	dead    []*actor // their writes may still land
	newest  Epoch    // in the store
	asked   map[string]ask
	purpose map[*request]purpose
}

// process is one of them: its session, its semaphore and what it has asked for.
type process struct {
	session, sem *actor
	number       uint64
	held         map[uint64]*holding
	pending      map[uint64]int64 // not answered yet: since when, or unset where it waits for ever
	leaving      bool
}

// holding is a permit as its holder sees it.
type holding struct {
	id, sid   string
	weight    uint64
	releasing bool
}

// TestSemaphoreStormy: whoever dies where and whatever lands when, what is believed
// to be held stands in the newest value and was let in by a view that had room for
// it; nothing stays behind a live session; one request is in flight; and when the
// storm is over everybody was answered and all permits can be had.
func TestSemaphoreStormy(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &crowd{
			world: newWorld(rt), rt: rt, asked: map[string]ask{}, purpose: map[*request]purpose{},
			ttl:   rapid.SampledFrom([]time.Duration{5 * time.Second, 20 * time.Second, time.Minute}).Draw(rt, "ttl"),
			boots: rapid.Bool().Draw(rt, "boots"),
		}
		c.stamps = rapid.Bool().Draw(rt, "stamps")
		c.unit = rapid.SampledFrom([]int64{1000, 1e9}).Draw(rt, "unit")
		for range rapid.IntRange(20, 500).Draw(rt, "steps") {
			c.oneThing()
			c.check()
		}
		c.settle()
	})
}

func (c *crowd) dice(n int, what string) int { return rapid.IntRange(0, n-1).Draw(c.rt, what) }

// oneThing lets one thing happen.
func (c *crowd) oneThing() {
	switch what := c.dice(24, "what"); {
	case what == 0 && len(c.living) < 4 || len(c.living) == 0:
		c.arrive()
	case what < 4:
		c.command(c.living[c.dice(len(c.living), "who")])
	case what == 4:
		c.land()
	case what == 5:
		c.now += rapid.SampledFrom([]int64{1e6, 1e9, int64(c.ttl) / 3, int64(c.ttl), int64(BasisWindow) + 1}).Draw(c.rt, "passes")
	case what == 6:
		if c.stamps {
			c.sample = clockSample{c.stamp(), c.now}
		}
	case what < 11:
		p := c.living[c.dice(len(c.living), "whose")]
		c.proceed(rapid.SampledFrom([]*actor{p.session, p.sem}).Draw(c.rt, "actor"))
	default:
		c.upcomingThing()
	}
}

func (c *crowd) arrive() {
	p := &process{held: map[uint64]*holding{}, pending: map[uint64]int64{}}
	p.sem = c.birth("m", MachineSemaphore)
	c.living = append(c.living, p)
	c.standUp(p)
}

// standUp gives a process a new session.
func (c *crowd) standUp(p *process) {
	if p.session != nil {
		c.dead = append(c.dead, p.session)
		c.gone(p.session)
	}
	p.session = c.birth("s", MachineSession)
	p.sem.strict.stands = p.session
	c.tell(p.session, Event{Kind: EventBegin})
}

func (c *crowd) birth(letter string, kind MachineKind) *actor {
	c.born++
	return c.strictly(fmt.Sprint(letter, c.born), func(cfg *Config) {
		cfg.Machine, cfg.TTL, cfg.Seed = kind, c.ttl, [16]byte{byte(c.born), byte(c.born >> 8), 1}
		if c.boots {
			cfg.Boot = rapid.SampledFrom([]string{"b1", "b1", "b2"}).Draw(c.rt, "boot")
		}
		if c.dice(4, "expiry") == 0 {
			cfg.Expiry = ExpiryObserved
		}
	})
}

// command is something that a process wants.
func (c *crowd) command(p *process) {
	number := uint64(c.dice(int(p.number)+1, "permit"))
	there := number == 0 || p.sem.machine.(*Semaphore).ask(number) != nil
	switch what := c.dice(16, "command"); {
	case what == 0:
		c.crash(p)
	case what == 1:
		p.leaving = true
		c.releasing(p, 0)
		c.tell(p.sem, Event{Kind: EventLeave})
	case p.session.strict.end != ReasonNone:
		c.standUp(p)
	case what < 5 && there:
		c.releasing(p, number)
		c.tell(p.sem, Event{Kind: EventRelease, Permit: number})
	case what < 7 && there:
		c.tell(p.sem, Event{Kind: EventCancel, Permit: number})
	case p.leaving:
	case what == 7:
		limit := rapid.SampledFrom([]uint64{0, 1, 2, 4}).Draw(c.rt, "limit")
		c.ask(p, Event{Kind: EventLimit, StoreLimit: limit})
	default:
		draw := func(what string, from ...uint32) uint32 { return rapid.SampledFrom(from).Draw(c.rt, what) }
		c.ask(p, Event{
			Kind: EventAcquire, Capacity: draw("capacity", 1, 2, 3), Width: draw("width", 1, 2), Weight: draw("weight", 0, 1, 2),
			Spare: draw("spare", 0, 0, 1), Wait: rapid.SampledFrom([]time.Duration{0, 3 * time.Second, Forever}).Draw(c.rt, "wait"),
		})
	}
}

func (c *crowd) ask(p *process, ev Event) {
	p.number++
	ev.Permit = p.number
	p.pending[p.number] = unset
	if ev.Kind == EventAcquire && ev.Wait >= 0 {
		p.pending[p.number] = c.now + int64(ev.Wait)
	}
	c.tell(p.sem, ev)
}

func (c *crowd) releasing(p *process, number uint64) {
	for n, h := range p.held {
		h.releasing = h.releasing || number == 0 || n == number
	}
}

func (c *crowd) crash(p *process) {
	for _, a := range []*actor{p.session, p.sem} {
		for _, r := range a.flying {
			if !r.applied && isWrite(r.Kind) && !(c.boots && r.Kind == ActionPut) {
				a.stray = append(a.stray, r)
			}
		}
		c.dead = append(c.dead, a)
	}
	c.gone(p.session, p.sem)
	c.living = slices.DeleteFunc(c.living, func(x *process) bool { return x == p })
}

// proceed does something to a machine's newest request.
func (c *crowd) proceed(a *actor) {
	if len(a.flying) == 0 {
		c.tell(a, Event{Kind: EventWoke})
		return
	}
	r := a.flying[c.dice(len(a.flying), "which")]
	switch c.dice(6, "fate") {
	case 0:
		c.note(r)
	case 1, 2:
		class := rapid.SampledFrom([]Class{ClassOther, ClassUnreachable, ClassThrottled, ClassOther, ClassUnauthorized}).Draw(c.rt, "class")
		if class.Permanent() && r.applied {
			class = ClassOther // what the store refuses it has not done
		}
		a.flying = without(a.flying, r)
		// Where beats tell the boot's clock no put that was given up lands (Config.Boot).
		if !r.applied && isWrite(r.Kind) && !class.Permanent() && !(c.boots && r.Kind == ActionPut) {
			a.stray = append(a.stray, r)
		}
		c.tell(a, Event{Kind: EventAnswer, Request: r.Request, Outcome: OutcomeUnknown, Class: class})
	case 3: // somebody on the way has sent it twice
		c.note(r)
		if r.Kind == ActionCreate {
			r.reply.Outcome = OutcomeNo
		}
		c.replied(a, r)
	default:
		c.note(r)
		c.replied(a, r)
	}
}

func (c *crowd) replied(a *actor, r *request) {
	a.flying = without(a.flying, r)
	c.tell(a, r.reply)
}

// upcomingThing is what comes next where nothing goes wrong.
func (c *crowd) upcomingThing() {
	a, r, at := c.upcoming(100e6)
	if a == nil {
		return
	}
	c.now = max(c.now, at)
	switch {
	case r == nil:
		c.tell(a, Event{Kind: EventWoke})
	case !r.applied:
		c.note(r)
	default:
		c.replied(a, r)
	}
}

// tell gives a machine one event, and its twin the same.
func (c *crowd) tell(a *actor, ev Event) {
	twin, carried := a.machine.Clone(), ev
	c.carry(a, &carried)
	_, twinErr := twin.Step(c.clock(a), carried)
	actions, err := c.step(a, ev)
	if err != nil || twinErr != nil {
		c.fail("Contract: %s: %v, twin %v", a.name, err, twinErr)
	}
	if !bytes.Equal(twin.AppendState(nil), a.machine.AppendState(nil)) {
		c.fail("Clone: %s and its twin differ", a.name)
	}
	c.heard(a, actions)
	relays := c.relays
	c.relays = nil
	for _, r := range relays {
		c.heard(r.actor, r.actions)
	}
}

// heard takes in what a machine says to its host.
func (c *crowd) heard(a *actor, actions []Action) {
	i := slices.IndexFunc(c.living, func(p *process) bool { return p.sem == a })
	if i < 0 {
		return
	}
	p := c.living[i]
	s := a.machine.(*Semaphore)
	for _, action := range actions {
		n := action.Permit
		_, open := p.pending[n]
		h := p.held[n]
		switch {
		case action.Kind.IsRequest():
			c.sent(a, s)
		case action.Kind == ActionHeld && !open, action.Kind == ActionRefused && !open, action.Kind == ActionLimited && !open:
			c.fail("AnsweredOnce: %s of %s, permit %d", action.Kind, a.name, n)
		case action.Kind == ActionHeld:
			h = &holding{id: string(action.Holder), sid: action.Session, weight: c.asked[string(action.Holder)].weight}
			if p.held[n] = h; action.Session != p.session.strict.sid || !c.believed(p, h) {
				c.fail("HeldInForce: %s, permit %d on %s", a.name, n, action.Session)
			}
			delete(p.pending, n)
		case action.Kind == ActionRefused, action.Kind == ActionLimited:
			delete(p.pending, n)
		case action.Kind == ActionReleased && open: // given back before anybody was told of it
			delete(p.pending, n)
		case action.Kind == ActionReleased && h == nil || action.Kind == ActionLost && h == nil && !open:
			c.fail("LostOnce: %s of %s, permit %d", action.Kind, a.name, n)
		case action.Kind == ActionReleased, action.Kind == ActionLost:
			delete(p.held, n)
			delete(p.pending, n)
		}
	}
}

// sent: one request is in flight, but for one that collects garbage.
func (c *crowd) sent(a *actor, s *Semaphore) {
	others := 0
	for _, r := range a.flying {
		if _, known := c.purpose[r]; !known {
			c.purpose[r] = s.doing
		}
		if c.purpose[r] < forGarbage {
			others++
		}
	}
	if others > 1 {
		c.fail("OneRequestInFlight: %s has %d", a.name, others)
	}
	if s.doing == forCreate {
		for i := range s.asks {
			if x := s.asks[i]; x.enters {
				c.asked[x.id] = x
			}
		}
	}
}

// note applies a request, and holds versions to the views of whom they let in.
func (c *crowd) note(r *request) {
	_, there := c.store[r.Key]
	was := c.valueAt(c.newest)
	if c.apply(r); r.Kind != ActionCreate || there {
		return
	}
	n, owner, ok := parseRegisterKey(registerPrefix("n"), []byte(r.Key))
	if !ok || owner != nil || n <= c.newest {
		return
	}
	if n != c.newest+1 {
		c.fail("NoGaps: version %d after %d", n, c.newest)
	}
	c.newest = n
	now := c.valueAt(n)
	running, entered := uint64(0), []ask(nil)
	for i := range now.permits {
		if was.find(now.permits[i].id) >= 0 {
			running += now.permits[i].weight
		} else {
			entered = append(entered, c.asked[now.permits[i].id])
		}
	}
	slices.SortFunc(entered, func(x, y ask) int { return int(x.number) - int(y.number) })
	for i := range entered {
		a := &entered[i]
		most := a.most(now.limit)
		if now.limit != was.limit { // before the limit was set, or after it
			most = max(most, a.most(was.limit))
		}
		if running += a.weight; running > most {
			c.fail("PermitsWithinCapacity: version %d holds %d with %+v", n, running, *a)
		}
	}
}

// valueAt is what a version says, read from the store.
func (c *crowd) valueAt(n Epoch) (v value) {
	var from version
	if n == 0 {
		return v
	}
	o, there := c.store[versionKey(registerPrefix("n"), n)]
	if !there || parseVersion(o.body, n, &from) != readGood {
		c.fail("Readable: version %d: %s", n, o.body)
	}
	v.take(&from)
	return v
}

// land lets a write reach the store that was given up.
func (c *crowd) land() {
	all := slices.Clone(c.dead)
	for _, p := range c.living {
		all = append(all, p.session, p.sem)
	}
	all = slices.DeleteFunc(all, func(a *actor) bool { return len(a.stray) == 0 })
	if len(all) > 0 {
		a := all[c.dice(len(all), "whose stray")]
		r := a.stray[c.dice(len(a.stray), "stray")]
		a.stray = without(a.stray, r)
		c.note(r)
	}
}

// believed: somebody relies on a permit at this instant.
func (c *crowd) believed(p *process, h *holding) bool {
	s := &p.session.strict
	return !h.releasing && s.sid == h.sid && c.mono(p.sem) < s.until
}

// check holds the world to what must be true at all times.
func (c *crowd) check() {
	now := c.valueAt(c.newest)
	for _, p := range c.living {
		for n, h := range p.held {
			if c.believed(p, h) && now.find(h.id) < 0 {
				c.fail("PermitsWithinCapacity: %s relies on permit %d, which was freed", p.sem.name, n)
			}
		}
		s := p.sem.machine.(*Semaphore)
		if len(s.asks) > 0 || s.state != SemaphoreIdle && s.state != SemaphoreClosed {
			continue
		}
		if !s.Idle() && s.flight.id == 0 {
			c.fail("QuietWhenIdle: %s has a timer", p.sem.name)
		}
		if sid := p.session.strict.sid; sid != "" && c.mono(p.sem) < p.session.strict.until {
			c.nothingLeft(p, sid, &now)
		}
	}
}

// nothingLeft: a machine that is idle and was asked for nothing has left nothing
// behind its live session, nor can anything of it land.
func (c *crowd) nothingLeft(p *process, sid string, now *value) {
	for i := range now.permits {
		if now.permits[i].session == sid {
			c.fail("NothingLeaks: %s has left %s", p.sem.name, now.permits[i].id)
		}
	}
	for _, r := range p.sem.stray {
		n, _, ok := parseRegisterKey(registerPrefix("n"), []byte(r.Key))
		if ok && n > c.newest && strings.Contains(string(r.Body), `"session": "`+sid+`"`) && strings.Contains(string(r.Body), `{"id"`) {
			c.fail("NothingLeaks: %s can still land at %d", p.sem.name, n)
		}
	}
}

// quiet lets everything happen as it should for a while, and lost sessions be made
// anew.
func (c *crowd) quiet(d time.Duration, done func() bool) {
	for end := c.now + int64(d); !done(); {
		for _, p := range c.living {
			if p.session.strict.end != ReasonNone {
				c.standUp(p)
			}
		}
		if a, _, at := c.upcoming(100e6); a == nil || at > end {
			c.now = max(c.now, end)
			return
		}
		c.upcomingThing()
		c.check()
	}
}

// settle: everybody is answered who does not wait for ever; everybody leaves, and
// then all permits can be had.
func (c *crowd) settle() {
	c.quiet(2*time.Minute+2*c.ttl, func() bool { return false })
	for _, p := range c.living {
		for n, until := range p.pending {
			if until != unset {
				c.fail("EveryAskIsAnswered: %s has not heard of %d", p.sem.name, n)
			}
		}
	}
	for _, p := range slices.Clone(c.living) {
		if c.dice(2, "crashes") == 0 {
			c.crash(p)
			continue
		}
		p.leaving = true
		c.releasing(p, 0)
		c.tell(p.sem, Event{Kind: EventLeave})
	}
	c.quiet(time.Minute, func() bool { return false })
	for _, p := range slices.Clone(c.living) {
		if s := p.sem.machine.(*Semaphore); s.state != SemaphoreClosed {
			c.fail("Leaves: %s is %s", p.sem.name, s.state)
		}
		c.crash(p)
	}
	c.arrive()
	heir := c.living[0]
	c.ask(heir, Event{Kind: EventLimit})
	c.ask(heir, Event{Kind: EventAcquire, Capacity: 3, Width: 2, Weight: 6, Wait: Forever})
	c.quiet(20*time.Minute, func() bool { return heir.held[2] != nil })
	if heir.held[2] == nil {
		c.fail("NothingLeaks: all permits cannot be had: %s", heir.sem.machine)
	}
	c.check()
}
