package resolve

import (
	"strconv"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/internal/base"
)

const (
	// Silence is how long a store may leave a question without one answer.
	Silence = 5 * core.Second
	// BetweenWrites is how long an object is left alone of which the store takes one write
	// a second.
	BetweenWrites = core.Second + core.Second/5
	// TidyLimit bounds a request for tidiness.
	TidyLimit = 2 * core.Second
	// mostFindingWrites is how many times more a finding is written if the store throttles that.
	mostFindingWrites = 3
	// competitors is how many creates race if the store has no capability record.
	competitors = 4
	retryFirst  = core.Second / 10
	mostDoubles = 5
)

// Verdict is what is known about create-if-absent.
type Verdict uint8

const (
	Unknown Verdict = iota
	Honoured
	Ignored
)

// Prober asks the store whether create-if-absent is honoured, by the capability record:
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
// If the store throttles the create over the record, the Prober creates an object of
// its own instead, which is removed afterwards. GCS takes one write a second to an
// object, and counts those that it refuses: a fleet that starts together would queue at
// the record for as many seconds as it has processes. What is throttled is left alone
// for BetweenWrites; so is the Prober's own object between its writes.
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
// Prober begins again. That the store has no such request counts when it is said twice:
// once may be a gateway's bad moment.
//
// Two winners are written into the record, which no process ever deletes. A person who
// mends the store has the doctor examine it again.
type Prober struct {
	base.Quiet
	base.Mutant // nothing in a product
	Patience
	RNG     base.RNG
	step    probeStep
	Own     string // key of the object that is created instead of the record, or ""
	creates Verdict
	seen    string // of Ignored

	racing  [competitors]racer
	winners int
	winner  string // the nonce of the last of them
	exists  int    // creates that were told that it exists
	denied  int    // creates in a row that were told that the store has no such request
	class   core.Class

	issued   core.RequestID
	inFlight int           // requests
	wakeAt   int64         `state:"due"` // Mono
	out      []core.Action `state:"scratch: of the latest Step"`
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
func (p *Prober) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	p.out = p.out[:0]
	switch {
	case p.step == probeEnd:
	case ev.Kind == core.EventBegin:
		p.begin(now.Mono)
		p.ask(now)
	case ev.Kind == core.EventAnswer:
		p.inFlight--
		if p.step == probeRace {
			p.raced(now, &ev)
		} else {
			p.answer(now, &ev)
		}
	case p.inFlight == 0 && now.Mono >= p.wakeAt:
		if reason := p.ended(now.Mono); reason != core.ReasonNone {
			p.refuse(reason)
		} else {
			p.ask(now)
		}
	}
	if p.step != probeEnd && p.inFlight == 0 {
		p.out = append(p.out, core.Action{Kind: core.ActionWake, At: p.wakeAt})
	}
	return p.out, nil
}

// answer takes an answer and goes on, or tries again.
func (p *Prober) answer(now core.Instant, ev *core.Event) {
	if ev.Outcome == core.OutcomeUnknown && p.step != probeWriteFinding {
		p.doubt(now, ev.Class)
		return
	}
	if p.step == probeWriteFinding && ev.Outcome == core.OutcomeUnknown && ev.Class == core.ClassThrottled && p.retries < mostFindingWrites {
		p.retries++
		p.wakeAt = now.Mono + int64(BetweenWrites)
		return
	}
	p.note(now.Mono, p.verb(), ev.Outcome, ev.Class)
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
		} else if p.Own != "" {
			p.wakeAt = now.Mono + int64(BetweenWrites)
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
func (p *Prober) read(body []byte, there bool) {
	c, ok := parseCard(body)
	switch {
	case ok && c.refused:
		p.creates, p.seen, p.step = Ignored, c.seen, probeEnd
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

func (p *Prober) honoured() { p.creates, p.step = Honoured, probeEnd }

func (p *Prober) ignored(seen string) {
	p.creates, p.seen, p.step = Ignored, seen, probeWriteFinding
}

// raced takes the end of one create of the race, and judges when all have ended.
func (p *Prober) raced(now core.Instant, ev *core.Event) {
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
			if p.countsLost() {
				p.exists++
			}
		}
	}
	if p.inFlight > 0 {
		return
	}
	if p.winners+p.exists > 0 {
		p.note(now.Mono, core.ActionCreate, core.OutcomeYes, core.ClassNone)
	}
	switch {
	case p.winners > 1:
		p.ignored(strconv.FormatUint(uint64(p.winners), 10) + " of " + strconv.FormatUint(competitors, 10) + " creates at once were told yes")
	case p.winners+p.exists > 0:
		p.retries, p.denied, p.step = 0, 0, probeRead
	default:
		p.doubt(now, p.class)
		return
	}
	p.ask(now)
}

// deny counts a create that failed because the store has no such request.
func (p *Prober) deny(class core.Class) {
	if class == core.ClassUnsupported {
		p.denied++
	}
}

// doubt tries again after a request whose outcome is unknown, or gives up.
func (p *Prober) doubt(now core.Instant, class core.Class) {
	aside := false
	if p.step == probeTry || p.step == probeAgain {
		p.deny(class)
		aside = p.stepAside(class)
	}
	if p.denied > 1 {
		p.creates, p.seen, p.step = Ignored, "the store says that it has none", probeEnd
		p.ask(now)
		return
	}
	again, reason := p.unknown(now.Mono, p.verb(), class, aside)
	if reason != core.ReasonNone {
		p.refuse(reason)
		return
	}
	p.wakeAt, p.step = again, probeCapability // from the beginning: it is unknown what is there now
	if p.Own != "" {                          // the record does not matter any more
		p.step = probeTry
	}
}

func (p *Prober) refuse(reason core.Reason) {
	p.step = probeEnd
	p.out = append(p.out, core.Action{Kind: core.ActionRefused, Reason: reason, Class: p.Reach.Class()})
}

// verb is that of the requests of the step.
func (p *Prober) verb() core.ActionKind {
	switch p.step {
	case probeCapability, probeRead:
		return core.ActionGet
	case probeWriteFinding:
		return core.ActionPut
	}
	return core.ActionCreate
}

// stepAside creates an object of the client's own from now on, if the store throttles the
// capability record. It stays the same object: one that a lost answer left says as much.
func (p *Prober) stepAside(class core.Class) bool {
	if class != core.ClassThrottled || p.Own != "" || !p.goesAside() {
		return false
	}
	p.Own = triedPrefix + p.nonce() + "/v"
	return true
}

func (p *Prober) nonce() string {
	var seed [16]byte
	for i := 0; i < len(seed); i += 8 {
		n := p.RNG.Next()
		for k := range 8 {
			seed[i+k] = byte(n >> (8 * k))
		}
	}
	return string(base.SeedUUID(seed))
}

// ask sends the request of the step, or begins the race.
func (p *Prober) ask(now core.Instant) {
	switch p.step {
	case probeCapability, probeRead:
		p.request(now, core.ActionGet, capabilityKey)
	case probeTry, probeAgain:
		key := capabilityKey
		if p.Own != "" {
			key = p.Own
		}
		p.write(now, core.ActionCreate, key, card{nonce: p.nonce()})
	case probeWriteFinding:
		p.write(now, core.ActionPut, capabilityKey, card{nonce: p.nonce(), refused: true, seen: p.seen}).Limit = TidyLimit
	case probeRace:
		p.winners, p.exists, p.class = 0, 0, core.ClassOther
		for i := range p.racing {
			nonce := p.nonce()
			a := p.write(now, core.ActionCreate, capabilityKey, card{nonce: nonce})
			p.racing[i] = racer{a.Request, nonce}
		}
	default:
		tried := core.Action{Kind: core.ActionTried, Body: []byte(p.seen)}
		if p.creates == Ignored {
			tried.Reason = core.ReasonNoCreate
		}
		p.out = append(p.out, tried)
	}
}

func (p *Prober) request(now core.Instant, verb core.ActionKind, key string) *core.Action {
	p.issued++
	p.inFlight++
	p.out = append(p.out, core.Action{Kind: verb, Request: p.issued, Key: key, Limit: p.limit(now.Mono)})
	return &p.out[len(p.out)-1]
}

func (p *Prober) write(now core.Instant, verb core.ActionKind, key string, c card) *core.Action {
	a := p.request(now, verb, key)
	a.Type, a.Body = capabilityType, appendCard(nil, c, now.Wall)
	return a
}

// Leftover implements base.Reporting.
func (p *Prober) Leftover() string { return p.Own }

// Idle implements core.Machine.
func (p *Prober) Idle() bool { return p.step == probeEnd }

// String implements core.Machine.
func (p *Prober) String() string { return "probing" }
