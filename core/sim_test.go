package core

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// A sim is a world whose weather rapid draws: machines come and go on one name,
// and each request's fate is decided when it is sent. What must be true at all
// times is checked here, by name; what must be true in the end, in
// property_test.go.

// weather is what can go wrong in one run. Some kinds are off altogether, or
// the rare ones would never be seen alone.
type weather struct {
	loss    bool  // requests or their answers get lost, in time
	late    bool  // puts that were given up land all the same
	pauses  bool  // machines stand still
	vandals bool  // the object is deleted, emptied or spoilt
	latency int64 // of a request, at most
	skew    int64 // of wall clocks, at most
	drift   int64 // of monotonic clocks, in millionths
	// orderly: what PROTOCOL section 3 asks for, so that nothing overlaps.
	orderly bool
}

// fate is what will become of a request: when it is applied, if it is, and
// when it is answered and how.
type fate struct {
	applyAt, answerAt int64
	class             Class
	lost              bool
}

// tenant is an actor with what its host means to do.
type tenant struct {
	*actor
	fates       map[*request]fate
	landings    map[*request]int64
	pausedUntil int64
	leaveAt     int64 // release, leave or cancel
	dead        bool  // crashed, or dropped at its end
	released    bool  // its release was answered
	lastRead    []byte
}

type sim struct {
	*world
	rt      *rapid.T
	weather weather
	cfg     Config
	tenants []*tenant
	born    int
	calm    bool // nothing fails any more
	written map[HolderID]int64
}

func newSim(rt *rapid.T, w weather) *sim {
	s := &sim{world: newWorld(rt), rt: rt, weather: w, written: map[HolderID]int64{}}
	s.stamps = rapid.Bool().Draw(rt, "stamps")
	s.cfg = s.drawConfig()
	return s
}

func (s *sim) drawConfig() Config {
	cfg := Config{Name: "n", Protocol: ProtocolLastWriter}
	cfg.TTL = time.Duration(rapid.SampledFrom([]int64{5, 20, 88}).Draw(s.rt, "ttl")) * time.Second
	cfg.FleetExpire = rapid.SampledFrom([]time.Duration{None, 0}).Draw(s.rt, "fleet")
	cfg.Expiry = rapid.SampledFrom([]Expiry{ExpiryWall, ExpiryObserved}).Draw(s.rt, "expiry")
	if s.weather.orderly {
		cfg.AcquireMargin = time.Duration(2*s.weather.latency) + time.Millisecond
		return cfg
	}
	cfg.Renewal = rapid.SampledFrom([]Renewal{RenewalChecked, RenewalChecked, RenewalBlind}).Draw(s.rt, "renewal")
	cfg.AcquireMargin = rapid.SampledFrom([]time.Duration{0, 100 * time.Millisecond, cfg.TTL / 2}).Draw(s.rt, "margin")
	return cfg
}

func (s *sim) upTo(n int64, what string) int64 {
	return rapid.Int64Range(0, max(0, n)).Draw(s.rt, what)
}

// oneIn says yes once in n times; shrinking makes it no.
func (s *sim) oneIn(n int, what string) bool {
	return rapid.IntRange(0, n-1).Draw(s.rt, what) == n-1
}

// birth makes a machine with clocks of its own.
func (s *sim) birth(kind MachineKind, holder HolderID) *tenant {
	s.born++
	cfg := s.cfg
	cfg.Machine, cfg.Holder = kind, holder
	cfg.Seed = [16]byte{byte(s.born), byte(s.born >> 8), 1}
	a, err := s.add(fmt.Sprintf("%s%d", kind.String()[:1], s.born), cfg)
	if err != nil {
		s.fail("birth: %v", err)
	}
	a.wall = s.upTo(2*s.weather.skew, "skew") - s.weather.skew
	a.rate = 1e6 + s.upTo(2*s.weather.drift, "drift") - s.weather.drift
	x := &tenant{actor: a, fates: map[*request]fate{}, landings: map[*request]int64{}, leaveAt: unset}
	s.tenants = append(s.tenants, x)
	return x
}

// tell gives a tenant one event, and its twin the same.
func (s *sim) tell(x *tenant, ev Event) {
	if ev.Kind == EventAnswer && ev.Outcome == OutcomeYes && ev.Body != nil {
		x.lastRead = ev.Body
	}
	twin := x.machine.Clone()
	theirs, twinErr := twin.Step(s.clock(x.actor), ev)
	shown := s.formatAll(theirs)
	actions, err := s.step(x.actor, ev)
	switch {
	case err != nil || twinErr != nil:
		s.fail("Contract: %s: %v, twin: %v", x.name, err, twinErr)
	case s.formatAll(actions) != shown || !bytes.Equal(twin.AppendState(nil), x.machine.AppendState(nil)):
		s.fail("Clone: %s and its twin differ: %s and %s", x.name, s.formatAll(actions), shown)
	}
	for _, action := range actions {
		s.heed(x, action)
	}
	for _, r := range x.flying {
		if _, known := x.fates[r]; !known {
			x.fates[r] = s.drawFate(x, r)
		}
	}
}

func (s *sim) formatAll(actions []Action) (out string) {
	for _, a := range actions {
		out += s.formatAction(a) + "\n"
	}
	return out
}

// heed checks an action against what the store has seen.
func (s *sim) heed(x *tenant, a Action) {
	switch a.Kind {
	case ActionPut:
		if x.ended && !s.overOwn(x, a.Body) {
			s.fail("NoClobber: %s wrote over what is not its own after its end", x.name)
		}
	case ActionHeld, ActionRenewed:
		s.checkDeadline(x, a)
	case ActionReleased:
		x.released = true
	}
}

// overOwn: a release again, over a live record of our own that was just read.
func (s *sim) overOwn(x *tenant, body []byte) bool {
	var put, read record
	parseRecord(body, &put)
	parseRecord(x.lastRead, &read)
	return put.state == recordReleased && read.state == recordLive && read.writer.equal(string(s.holderOf(x)))
}

func (s *sim) holderOf(x *tenant) HolderID { return tenureOf(x.machine).holder }

// checkDeadline: a lease may be relied on for 0.9 TTL after the sending of a
// put that is known to have been applied, and no longer.
func (s *sim) checkDeadline(x *tenant, a Action) {
	sent, ok := s.written[s.holderOf(x)]
	life := int64(s.cfg.TTL) / 10 * 9
	// Two owners' puts of one microsecond are told apart by nobody.
	slack := life/1e6*2*s.weather.drift + 2*s.weather.skew + int64(time.Microsecond)
	if !ok || s.trueAt(x.actor, a.At) > sent+life+slack {
		s.fail("DeadlineFromTheStamp: %s believes until %s after a put sent at %s", x.name, seconds(a.At), seconds(sent))
	}
}

// drawFate decides what becomes of a request.
func (s *sim) drawFate(x *tenant, r *request) fate {
	limit := s.trueAt(x.actor, s.mono(x.actor)+int64(r.Limit)) - s.now
	total := s.upTo(s.weather.latency, "latency")
	f := fate{applyAt: s.now + total/2, answerAt: s.now + total}
	if s.calm {
		return f
	}
	if total > limit { // the host gives it up
		f.answerAt, f.lost, f.class = s.now+limit, true, ClassUnreachable
		if total/2 > limit {
			f.applyAt = unset
		}
	}
	if s.weather.loss && s.oneIn(5, "lost") {
		f = fate{applyAt: unset, answerAt: s.now + min(limit, total), lost: true, class: s.drawClass()}
		if rapid.Bool().Draw(s.rt, "applied") {
			f.applyAt = s.now + s.upTo(min(limit, total), "applied at")
		}
	}
	if f.lost && f.applyAt == unset && r.Kind == ActionPut && s.weather.late && rapid.Bool().Draw(s.rt, "late") {
		x.landings[r] = f.answerAt + s.upTo(2*int64(s.cfg.TTL), "lands")
	}
	return f
}

func (s *sim) drawClass() Class {
	return rapid.SampledFrom([]Class{ClassOther, ClassUnreachable, ClassThrottled}).Draw(s.rt, "class")
}

// happening is one thing that can happen next.
type happening struct {
	at int64
	do func()
}

// next is the earliest of all that is to come.
func (s *sim) next() happening {
	first := happening{at: unset}
	offer := func(at int64, do func()) {
		if at < first.at {
			first = happening{at, do}
		}
	}
	for _, x := range s.tenants {
		s.offerStore(x, offer)
		if x.dead {
			continue
		}
		if x.wake != unset {
			offer(max(s.trueAt(x.actor, x.wake), x.pausedUntil), func() { s.tell(x, Event{Kind: EventWoke}) })
		}
		offer(max(x.leaveAt, x.pausedUntil), func() { s.depart(x) })
		for _, r := range x.flying {
			offer(max(x.fates[r].answerAt, x.pausedUntil), func() { s.settleRequest(x, r) })
		}
	}
	return first
}

// offerStore: what was sent reaches the store, whether its sender lives or not.
func (s *sim) offerStore(x *tenant, offer func(int64, func())) {
	for _, r := range slices.Concat(x.flying, x.stray) {
		if f := x.fates[r]; !r.applied && f.applyAt != unset {
			offer(f.applyAt, func() { s.reach(x, r) })
		} else if at, lands := x.landings[r]; !r.applied && lands {
			offer(at, func() { s.reach(x, r) })
		}
	}
}

// reach applies a request, and notes what it means to the oracle.
func (s *sim) reach(x *tenant, r *request) {
	s.apply(r)
	if r.Kind != ActionPut {
		return
	}
	var put record
	parseRecord(r.Body, &put)
	holder := s.holderOf(x)
	if put.state == recordLive {
		s.written[holder] = max(s.written[holder], r.sent)
		if x.released && !s.weather.late {
			s.fail("NoResurrection: %s put its lease back after its release was answered", x.name)
		}
	}
}

func (s *sim) settleRequest(x *tenant, r *request) {
	f := x.fates[r]
	if f.lost {
		x.flying = without(x.flying, r)
		if !r.applied && r.Kind == ActionPut {
			x.stray = append(x.stray, r)
		}
		s.tell(x, Event{Kind: EventAnswer, Request: r.Request, Outcome: OutcomeUnknown, Class: f.class})
		return
	}
	s.reach(x, r)
	x.flying = without(x.flying, r)
	s.tell(x, r.reply)
}

// depart ends a tenant's part by its own wish, or by a crash. In an orderly
// world an orchestrator releases only when its remote has ended: until it reads
// of a release, a companion goes on.
func (s *sim) depart(x *tenant) {
	x.leaveAt = unset
	if s.weather.orderly && kindOf(x.machine) == MachineLease && s.accompanied(x) {
		x.leaveAt = s.now + int64(s.cfg.TTL)
		return
	}
	if s.oneIn(5, "crash") {
		x.dead, x.deadline = true, unset
		s.events = append(s.events, seconds(s.now)+" "+x.name+" crashes")
		return
	}
	kind := EventRelease
	if kindOf(x.machine) == MachineCompanion {
		kind = EventLeave
	}
	s.tell(x, Event{Kind: kind})
}

func (s *sim) accompanied(x *tenant) bool {
	return slices.ContainsFunc(s.tenants, func(y *tenant) bool {
		return kindOf(y.machine) == MachineCompanion && !y.dead && !y.machine.Idle() && s.holderOf(y) == s.holderOf(x)
	})
}

// happen lets the next thing happen, unless it comes after end.
func (s *sim) happen(end int64) bool {
	h := s.next()
	if h.at == unset || h.at > end {
		return false
	}
	s.now = max(s.now, h.at)
	h.do()
	s.disturb()
	s.checkBelievers()
	return true
}

// disturb pauses a machine or spoils the object now and then.
func (s *sim) disturb() {
	if s.calm {
		return
	}
	if s.weather.pauses && s.oneIn(12, "pause") {
		x := s.tenants[s.upTo(int64(len(s.tenants)-1), "who")]
		x.pausedUntil = s.now + s.upTo(2*int64(s.cfg.TTL), "pause for")
	}
	if s.weather.vandals && s.oneIn(30, "vandal") {
		s.spoil()
	}
}

func (s *sim) spoil() {
	const key = "n/" + LockFile
	body := rapid.SampledFrom([][]byte{nil, {}, []byte("{"), []byte(`{"writer_id": "x", "written_at": ""}`)}).Draw(s.rt, "spoilt")
	if body == nil {
		delete(s.store, key)
	} else {
		s.store[key] = object{body, worldStart + s.now}
	}
	s.events = append(s.events, fmt.Sprintf("%s vandals leave %q", seconds(s.now), body))
}

// believers are the tenures that somebody relies on at this instant.
func (s *sim) believers() map[HolderID]string {
	found := map[HolderID]string{}
	for _, x := range s.tenants {
		if !x.dead && x.deadline != unset && s.mono(x.actor) < x.deadline {
			found[s.holderOf(x)] = x.name
		}
	}
	return found
}

func (s *sim) checkBelievers() {
	if found := s.believers(); s.weather.orderly && len(found) > 1 {
		s.fail("NoOverlap: %v", found)
	}
}
