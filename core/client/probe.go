package client

import (
	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
	"github.com/mopslock/mopslock/core/internal/octets"
)

const (
	// probePatience is how long a store may leave a question without one answer.
	probePatience = 5 * core.Second
	// betweenWrites is how long an object is left alone of which the store takes one write
	// a second.
	betweenWrites = core.Second + core.Second/5
	// tidyLimit bounds a request for tidiness.
	tidyLimit = 2 * core.Second
	// mostFindingWrites is how many times more a finding is written if the store throttles that.
	mostFindingWrites = 3
	// competitors is how many creates race if the store has no capability record.
	competitors = 4
	retryFirst  = core.Second / 10
	mostDoubles = 5
)

// verdict is what is known about create-if-absent.
type verdict uint8

const (
	createUnknown verdict = iota
	createHonoured
	createIgnored
)

// abilities is what the client has found out about its store.
type abilities struct {
	creates verdict
	seen    string // of createIgnored: what was seen
	warned  bool   // that auto falls back on lastwriter
	reached bool   // the store has said yes or no to something
	asking  *unit  // finds it out, for all claims that wait for it
	waiting []*claim
	own     string // key of the object that is created if the record is throttled, or ""
}

// patience is how long a question goes on that the store does not answer.
type patience struct {
	wait     core.Duration // the caller's
	begun    int64
	answered bool // the store has said something before
	retries  int
}

// unknown says what to do after a request whose outcome is unknown: try again at an
// instant, or give up for a reason. A store that cannot be used is given up at once, one
// that has never answered after a while, one that has answered when the wait is over.
func (p *patience) unknown(now int64, class core.Class, aside bool) (again int64, reason core.Reason) {
	if class.Permanent() {
		return 0, core.ReasonUnusable
	}
	most := probePatience
	if p.wait > 0 && (p.answered || p.wait < most) {
		most = p.wait
	}
	if core.Duration(now-p.begun) >= most && (!p.answered || p.wait != core.Forever) {
		if p.answered {
			return 0, core.ReasonLimit
		}
		return 0, core.ReasonUnreachable
	}
	p.retries = min(p.retries+1, mostDoubles)
	again = now + int64(retryFirst)<<p.retries
	if class == core.ClassThrottled && !aside {
		again = max(again, now+int64(betweenWrites))
	}
	if end := p.begun + int64(most); end > now {
		again = min(again, end)
	}
	return again, core.ReasonNone
}

// limit bounds a request: who waits less than probePatience, or has less left of its wait,
// must not wait for a silent store any longer than that.
func (p *patience) limit(now int64) core.Duration {
	if p.wait <= 0 {
		return probePatience
	}
	return max(core.Second/1000, min(probePatience, p.wait-core.Duration(now-p.begun)))
}

func (p *patience) snapshot(s *base.Snapshot) {
	s.Int(int64(p.wait))
	s.Int(p.begun)
	s.Bools(p.answered)
	s.Int(int64(p.retries))
}

// prober asks the store whether create-if-absent is honoured, by the capability record:
//
//	get it       it refuses the store: that is all. A process saw two winners here.
//	             One that comes by a better endpoint would not exclude those that
//	             come by that one
//	   there     create it: "it exists" is what only a store that honours
//	             create-if-absent says, and this endpoint of this bucket has said it.
//	             After a yes (it was just removed, or written over) it is created
//	             again: the store that says yes again takes every create for a put
//	   absent    four creates of it at once, then a get
//
// If the store throttles the create over the record, the prober creates an object of
// its own instead, which is removed afterwards. GCS takes one write a second to an
// object, and counts those that it refuses: a fleet that starts together would queue at
// the record for as many seconds as it has processes. What is throttled is left alone
// for betweenWrites; so is the prober's own object between its writes.
//
// One create after the other is not enough if no process has tried before. Some stores
// look, and then write:
//
//	A   create ── looks: none ─────────── writes ── yes
//	B         create ── looks: none ── writes ── yes
//
// There are two winners if two creates are told yes, or if another object lies there
// than the one that was told yes. Each create has a nonce of its own, by which this is
// known. A create without an answer is no winner, whether or not it was applied. Nor is
// the one that a front end sent twice: it is told that it exists, and lies there itself.
// At least one create must be told that it exists. Otherwise, as at any other doubt, the
// prober begins again. That the store has no such request counts when it is said twice:
// once may be a gateway's bad moment.
//
// Two winners are written into the record, which no process ever deletes. A person who
// mends the store has the doctor examine it again.
type prober struct {
	patience
	rng     base.RNG
	step    probeStep
	own     string // key of the object that is created instead of the record, or ""
	creates verdict
	seen    string // of createIgnored

	racing  [competitors]racer
	winners int
	winner  string // the nonce of the last of them
	exists  int    // creates that were told that it exists
	denied  int    // creates in a row that were told that the store has no such request
	class   core.Class

	issued core.RequestID
	sent   int   // requests in flight
	wakeAt int64 // Mono
	out    []core.Action
}

// racer is one create of a race.
type racer struct {
	request core.RequestID // 0: it has ended
	nonce   string
}

type probeStep uint8

const (
	probeCapability   probeStep = iota // is there one, and what does it say?
	probeTry                           // create it, though it is there
	probeAgain                         // create it once more
	probeRace                          // create it four times at once
	probeRead                          // whose it is
	probeWriteFinding                  // put what was seen
	probeEnd
)

// Step implements core.Machine.
func (p *prober) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	p.out = p.out[:0]
	switch {
	case p.step == probeEnd:
	case ev.Kind == core.EventBegin:
		p.begun = now.Mono
		p.ask(now)
	case ev.Kind == core.EventAnswer:
		p.sent--
		if p.step == probeRace {
			p.raced(now, &ev)
		} else {
			p.answer(now, &ev)
		}
	case p.sent == 0 && now.Mono >= p.wakeAt:
		p.ask(now)
	}
	if p.step != probeEnd && p.sent == 0 {
		p.out = append(p.out, core.Action{Kind: core.ActionWake, At: p.wakeAt})
	}
	return p.out, nil
}

// answer takes an answer and goes on, or tries again.
func (p *prober) answer(now core.Instant, ev *core.Event) {
	if ev.Outcome == core.OutcomeUnknown && p.step != probeWriteFinding {
		p.doubt(now, ev.Class)
		return
	}
	if p.step == probeWriteFinding && ev.Outcome == core.OutcomeUnknown && ev.Class == core.ClassThrottled && p.retries < mostFindingWrites {
		p.retries++
		p.wakeAt = now.Mono + int64(betweenWrites)
		return
	}
	p.answered = true
	if p.step != probeCapability { // which is read again before each try, and says nothing of the try
		p.retries = 0
	}
	yes := ev.Outcome == core.OutcomeYes
	switch p.step {
	case probeCapability, probeRead:
		p.read(ev.Body, yes)
	case probeTry:
		p.denied, p.step = 0, probeAgain
		if !yes {
			p.honoured()
		} else if p.own != "" {
			p.wakeAt = now.Mono + int64(betweenWrites)
			return
		}
	case probeAgain:
		p.denied = 0
		if p.honoured(); yes {
			p.ignored("an object that was there could be created")
		}
	case probeWriteFinding: // whatever became of it
		p.step = probeEnd
	}
	p.ask(now)
}

// read judges by the capability record. One that cannot be read says nothing.
func (p *prober) read(body []byte, there bool) {
	c, ok := parseCard(body)
	switch {
	case ok && c.refused:
		p.creates, p.seen, p.step = createIgnored, c.seen, probeEnd
	case p.step == probeCapability && !there:
		p.step = probeRace
	case p.step == probeCapability, !ok:
		p.step = probeTry
	case p.winners == 1 && c.nonce != p.winner:
		p.ignored("a create was told yes, and another one lay there")
	case p.exists == 0:
		p.step = probeTry
	default:
		p.honoured()
	}
}

func (p *prober) honoured() { p.creates, p.step = createHonoured, probeEnd }

func (p *prober) ignored(seen string) {
	p.creates, p.seen, p.step = createIgnored, seen, probeWriteFinding
}

// raced takes the end of one create of the race, and judges when all have ended.
func (p *prober) raced(now core.Instant, ev *core.Event) {
	for i := range p.racing {
		r := &p.racing[i]
		if r.request != ev.Request {
			continue
		}
		r.request = 0
		switch ev.Outcome {
		case core.OutcomeYes:
			p.winners++
			p.winner = r.nonce
		case core.OutcomeNo:
			p.exists++
		default:
			p.class = ev.Class
			p.deny(ev.Class)
		}
	}
	switch {
	case p.sent > 0:
		return
	case p.winners > 1:
		p.answered = true
		p.ignored(octets.UintText(uint64(p.winners)) + " of " + octets.UintText(competitors) + " creates at once were told yes")
	case p.winners+p.exists > 0:
		p.answered, p.retries, p.denied, p.step = true, 0, 0, probeRead
	default:
		p.doubt(now, p.class)
		return
	}
	p.ask(now)
}

// deny counts a create that failed because the store has no such request.
func (p *prober) deny(class core.Class) {
	if class == core.ClassUnsupported {
		p.denied++
	}
}

// doubt tries again after a request whose outcome is unknown, or gives up.
func (p *prober) doubt(now core.Instant, class core.Class) {
	aside := false
	if p.step == probeTry || p.step == probeAgain {
		p.deny(class)
		aside = p.stepAside(class)
	}
	if p.denied > 1 {
		p.creates, p.seen, p.step = createIgnored, "the store says that it has none", probeEnd
		p.ask(now)
		return
	}
	again, reason := p.unknown(now.Mono, class, aside)
	if reason != core.ReasonNone {
		p.step = probeEnd
		p.out = append(p.out, core.Action{Kind: core.ActionRefused, Reason: reason, Class: class})
		return
	}
	p.wakeAt, p.step = again, probeCapability // from the beginning: it is unknown what is there now
	if p.own != "" {                          // the record does not matter any more
		p.step = probeTry
	}
}

// stepAside creates an object of the client's own from now on, if the store throttles the
// capability record. It stays the same object: one that a lost answer left says as much.
func (p *prober) stepAside(class core.Class) bool {
	if class != core.ClassThrottled || p.own != "" {
		return false
	}
	p.own = triedPrefix + p.nonce() + "/v"
	return true
}

func (p *prober) nonce() string {
	var seed [16]byte
	for i := 0; i < len(seed); i += 8 {
		n := p.rng.Next()
		for k := range 8 {
			seed[i+k] = byte(n >> (8 * k))
		}
	}
	return string(base.SeedUUID(seed))
}

// ask sends the request of the step, or begins the race.
func (p *prober) ask(now core.Instant) {
	switch p.step {
	case probeCapability, probeRead:
		p.request(now, core.ActionGet, capabilityKey)
	case probeTry, probeAgain:
		key := capabilityKey
		if p.own != "" {
			key = p.own
		}
		p.write(now, core.ActionCreate, key, card{nonce: p.nonce()})
	case probeWriteFinding:
		p.write(now, core.ActionPut, capabilityKey, card{nonce: p.nonce(), refused: true, seen: p.seen}).Limit = tidyLimit
	case probeRace:
		p.winners, p.exists, p.class = 0, 0, core.ClassOther
		for i := range p.racing {
			nonce := p.nonce()
			a := p.write(now, core.ActionCreate, capabilityKey, card{nonce: nonce})
			p.racing[i] = racer{a.Request, nonce}
		}
	default:
		p.out = append(p.out, core.Action{Kind: core.ActionTried, Body: []byte(p.seen)})
	}
}

func (p *prober) request(now core.Instant, verb core.ActionKind, key string) *core.Action {
	p.issued++
	p.sent++
	p.out = append(p.out, core.Action{Kind: verb, Request: p.issued, Key: key, Limit: p.limit(now.Mono)})
	return &p.out[len(p.out)-1]
}

func (p *prober) write(now core.Instant, verb core.ActionKind, key string, c card) *core.Action {
	a := p.request(now, verb, key)
	a.Type, a.Body = capabilityType, appendCard(nil, c, now.Wall)
	return a
}

// Idle implements core.Machine.
func (p *prober) Idle() bool { return p.step == probeEnd }

// String implements core.Machine.
func (p *prober) String() string { return "probing" }

// AppendState implements core.Machine.
func (p *prober) AppendState(dst []byte) []byte {
	s := base.Snapshot(dst)
	p.snapshot(&s)
	p.rng.Snapshot(&s)
	s.Octet(uint8(p.step))
	s.Octet(uint8(p.creates))
	s.Text(p.own)
	s.Text(p.seen)
	for i := range p.racing {
		s.Uint(uint64(p.racing[i].request))
		s.Text(p.racing[i].nonce)
	}
	s.Int(int64(p.winners))
	s.Text(p.winner)
	s.Int(int64(p.exists))
	s.Int(int64(p.denied))
	s.Octet(uint8(p.class))
	s.Uint(uint64(p.issued))
	s.Int(int64(p.sent))
	s.Int(p.wakeAt)
	return s
}

// Clone implements core.Machine.
func (p *prober) Clone() core.Machine {
	twin := *p
	twin.out = nil
	return &twin
}

// question asks whether a name has an object with a key.
type question struct {
	patience
	key    string
	issued core.RequestID
	sent   bool
	wakeAt int64 // Mono
	done   bool
	out    []core.Action
}

// Step implements core.Machine. The end is seen, with the answer as Count, or refused.
func (q *question) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	q.out = q.out[:0]
	switch {
	case q.done:
	case ev.Kind == core.EventBegin:
		q.begun = now.Mono
		q.ask(now)
	case ev.Kind == core.EventAnswer && ev.Outcome == core.OutcomeUnknown:
		q.sent = false
		again, reason := q.unknown(now.Mono, ev.Class, false)
		if q.wakeAt = again; reason != core.ReasonNone {
			q.done = true
			q.out = append(q.out, core.Action{Kind: core.ActionRefused, Reason: reason, Class: ev.Class})
		}
	case ev.Kind == core.EventAnswer:
		q.sent, q.done = false, true
		a := core.Action{Kind: core.ActionSeen}
		if ev.Outcome == core.OutcomeYes {
			a.Count = 1
		}
		q.out = append(q.out, a)
	case !q.sent && now.Mono >= q.wakeAt:
		q.ask(now)
	}
	if !q.done && !q.sent {
		q.out = append(q.out, core.Action{Kind: core.ActionWake, At: q.wakeAt})
	}
	return q.out, nil
}

func (q *question) ask(now core.Instant) {
	q.issued++
	q.sent = true
	q.out = append(q.out, core.Action{Kind: core.ActionExists, Request: q.issued, Key: q.key, Limit: q.limit(now.Mono)})
}

// Idle implements core.Machine.
func (q *question) Idle() bool { return q.done }

// String implements core.Machine.
func (q *question) String() string { return "asking" }

// AppendState implements core.Machine.
func (q *question) AppendState(dst []byte) []byte {
	s := base.Snapshot(dst)
	q.snapshot(&s)
	s.Text(q.key)
	s.Uint(uint64(q.issued))
	s.Bools(q.sent, q.done)
	s.Int(q.wakeAt)
	return s
}

// Clone implements core.Machine.
func (q *question) Clone() core.Machine {
	twin := *q
	twin.out = nil
	return &twin
}
