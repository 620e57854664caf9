package host

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store/capability"
)

// probePatience is how long a store may leave a probe without one answer.
const probePatience = 5 * time.Second

// betweenWrites is how long an object is left alone of which the store takes one write a
// second.
const betweenWrites = 1200 * time.Millisecond

// tidyLimit bounds what is done for tidiness only.
const tidyLimit = 2 * time.Second

// mostFindingWrites is how many times more a finding is written if the store throttles that.
const mostFindingWrites = 3

// competitors is how many creates race if the store has no capability record.
const competitors = 4

// What a prober finds out about create-if-absent.
const (
	createUnknown int32 = iota
	createHonoured
	createIgnored
)

// prober is a machine of the host's own, with one request after the other. Of a name it
// asks whether N/lock.json exists. Of the store it asks whether create-if-absent is
// honoured, by the capability record (package capability):
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
	step    probeStep // where it begins
	record  string    // key
	wait    time.Duration
	nonce   func() (string, error)
	failure func() error // of the latest request whose outcome is unknown
	found   func(creates int32, seen string)
	compete func(nonce string, limit time.Duration) error // begins one create of a race

	there   bool
	own     string       // key of the object that is created instead of the record, or ""
	tries   func(string) // told of it
	creates int32
	seen    string // of createIgnored

	racing  int      // creates without an answer
	winners []string // nonces that were told yes
	exists  int      // those that were told that it exists
	denied  int      // creates in a row that were told that the store has no such request
	class   core.Class

	begun    int64
	answered bool       // a read, once
	written  bool       // a write, once
	refused  core.Class // of the last write, before one has worked
	request  core.RequestID
	sent     bool // a request is in flight
	retries  int
	wakeAt   int64
	done     bool
	out      []core.Action
}

type probeStep uint8

const (
	probeRecord       probeStep = iota
	probeCapability             // is there one, and what does it say?
	probeTry                    // create it, though it is there
	probeAgain                  // create it once more
	probeRace                   // create it four times at once
	probeJudge                  // what became of that
	probeRead                   // whose it is
	probeWriteFinding           // put what was seen
	probeEnd
)

// Step implements core.Stepper.
func (p *prober) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	p.out = p.out[:0]
	switch {
	case p.done:
	case ev.Kind == core.EventCancel:
		p.refuse(core.ReasonCancelled, core.ClassNone)
	case ev.Kind == core.EventBegin:
		p.begun = now.Mono
		p.ask(now)
	case ev.Kind == core.EventAnswer && ev.Request == p.request && p.sent:
		p.sent = false
		p.answer(now, &ev)
	case !p.sent && p.racing == 0 && now.Mono >= p.wakeAt:
		if p.refused != core.ClassNone && !p.written && time.Duration(now.Mono-p.begun) >= p.limit(core.Instant{Mono: p.begun}) {
			p.unknown(now, p.refused)
		} else {
			p.ask(now)
		}
	}
	if !p.done && !p.sent && p.racing == 0 {
		p.out = append(p.out, core.Action{Kind: core.ActionWake, At: p.wakeAt})
	}
	return p.out, nil
}

// answer takes an answer and goes on, or tries again.
func (p *prober) answer(now core.Instant, ev *core.Event) {
	if ev.Outcome == core.OutcomeUnknown && p.step != probeWriteFinding {
		p.unknown(now, ev.Class)
		return
	}
	if p.step == probeWriteFinding && ev.Outcome == core.OutcomeUnknown && ev.Class == core.ClassThrottled && p.retries < mostFindingWrites {
		p.retries++
		p.wakeAt = now.Mono + int64(betweenWrites)
		return
	}
	if p.step != probeRecord || ev.Outcome == core.OutcomeYes { // a store that is not there says no as well (PROTOCOL T5)
		p.noteAnswer()
	}
	if p.step != probeCapability { // which is read again before each try, and says nothing of the try
		p.retries = 0
	}
	if p.step == probeTry || p.step == probeAgain {
		p.denied = 0
	}
	yes := ev.Outcome == core.OutcomeYes
	switch p.step {
	case probeRecord:
		p.there = yes
		p.step = probeEnd
	case probeCapability, probeRead:
		p.read(ev.Body, yes)
	case probeTry:
		p.step = probeAgain
		if !yes {
			p.honoured()
		} else if p.own != "" {
			p.wakeAt = now.Mono + int64(betweenWrites)
			return
		}
	case probeAgain:
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
	c, ok := capability.Parse(body)
	mine := ok && len(p.winners) == 1 && c.Nonce == p.winners[0]
	switch {
	case c.Refused:
		p.creates, p.seen, p.step = createIgnored, c.Seen(), probeEnd
	case p.step == probeCapability && !there:
		p.step = probeRace
	case p.step == probeCapability, !ok:
		p.step = probeTry
	case len(p.winners) == 1 && !mine:
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

// raced takes the end of one create of the race; failed is its error. The caller wakes the
// prober.
func (p *prober) raced(nonce string, ev *core.Event, failed error) {
	p.racing--
	switch ev.Outcome {
	case core.OutcomeYes:
		p.winners = append(p.winners, nonce)
	case core.OutcomeNo:
		p.exists++
	default:
		p.class = ev.Class
		p.deny(failed)
	}
}

// deny counts a create that failed because the store has no such request.
func (p *prober) deny(failed error) {
	if errors.Is(failed, errors.ErrUnsupported) {
		p.denied++
	}
}

// judge goes on when every create of the race has ended.
func (p *prober) judge(now core.Instant) {
	switch {
	case len(p.winners) > 1:
		p.written = true
		p.ignored(fmt.Sprintf("%d of %d creates at once were told yes", len(p.winners), competitors))
	case len(p.winners)+p.exists > 0:
		p.written, p.retries, p.denied, p.step = true, 0, 0, probeRead
	default:
		p.unknown(now, p.class)
		return
	}
	p.ask(now)
}

// writes reports whether the step is a write.
func (p *prober) writes() bool {
	switch p.step {
	case probeRecord, probeCapability, probeRead:
		return false
	}
	return true
}

// noteAnswer records that reads, or writes, have worked.
func (p *prober) noteAnswer() {
	if p.writes() {
		p.written = true
		return
	}
	p.answered = true
}

// unknown gives up a store that cannot be used at once, one that has never answered a
// read, or a write, after a while, and one that has when the caller's wait is over.
func (p *prober) unknown(now core.Instant, class core.Class) {
	aside := false
	if p.step == probeTry || p.step == probeAgain {
		p.deny(p.failure())
		aside = p.stepsAside(class)
	}
	if p.denied > 1 {
		p.creates, p.seen, p.step = createIgnored, "the store says that it has none", probeEnd
		p.ask(now)
		return
	}
	worked := p.answered
	switch writes := p.writes(); {
	case writes:
		worked, p.refused = p.written, class
	case p.refused != core.ClassNone && !p.written: // which the reads between the writes do not mend
		worked, class = false, p.refused
	}
	patience := probePatience
	if p.wait > 0 && (worked || p.wait < patience) {
		patience = p.wait
	}
	over := time.Duration(now.Mono-p.begun) >= patience && (!worked || p.wait != core.Forever)
	permanent := class.Permanent()
	switch refuses := permanent || class == core.ClassOther; {
	case !worked && permanent, over && !worked && refuses:
		p.refuse(core.ReasonUnusable, class)
	case over && worked:
		p.refuse(core.ReasonLimit, class)
	case over:
		p.refuse(core.ReasonUnreachable, class)
	default:
		p.retries = min(p.retries+1, 5)
		p.wakeAt = now.Mono + int64(100*time.Millisecond)<<p.retries
		if class == core.ClassThrottled && !aside {
			p.wakeAt = max(p.wakeAt, now.Mono+int64(betweenWrites))
		}
		if end := p.begun + int64(patience); end > now.Mono {
			p.wakeAt = min(p.wakeAt, end)
		}
		if p.own != "" { // the record does not matter any more
			p.step = probeTry
			return
		}
		p.step = min(p.step, probeCapability) // from the beginning: it is unknown what is there now
	}
}

// stepsAside creates an object of the Host's own from now on, if the store throttles the
// capability record. It stays the same object: one that a lost answer left says as much.
func (p *prober) stepsAside(class core.Class) bool {
	if class != core.ClassThrottled || p.own != "" {
		return false
	}
	nonce, err := p.nonce()
	if err != nil {
		return false
	}
	p.own = triedDir + nonce + "/v"
	p.tries(p.own)
	return true
}

// limit bounds a request: a caller that waits less than probePatience, or has less left of
// its wait, must not wait for a silent store any longer than that.
func (p *prober) limit(now core.Instant) time.Duration {
	if p.wait <= 0 {
		return probePatience
	}
	return max(time.Millisecond, min(probePatience, p.wait-time.Duration(now.Mono-p.begun)))
}

// ask sends the request of the step, or begins the race.
func (p *prober) ask(now core.Instant) {
	a := core.Action{Limit: p.limit(now), Key: capabilityKey}
	switch p.step {
	case probeRecord:
		a.Kind, a.Key = core.ActionExists, p.record
	case probeCapability, probeRead:
		a.Kind = core.ActionGet
	case probeTry, probeAgain:
		a.Kind, a.Key = core.ActionCreate, cmp.Or(p.own, capabilityKey)
	case probeWriteFinding:
		a.Kind, a.Limit = core.ActionPut, tidyLimit
	case probeRace:
		p.race(a.Limit)
		return
	case probeJudge:
		p.judge(now)
		return
	default:
		p.done = true
		if p.found != nil {
			p.found(p.creates, p.seen)
		}
		return
	}
	if a.Kind == core.ActionCreate || a.Kind == core.ActionPut {
		nonce, err := p.nonce()
		if err != nil {
			p.refuse(core.ReasonUnusable, core.ClassOther)
			return
		}
		a.Type = capability.Type
		a.Body = capability.Record{Nonce: nonce, Refused: p.step == probeWriteFinding, Why: p.seen, At: time.Unix(0, now.Wall)}.Body()
	}
	p.request++
	a.Request, p.sent = p.request, true
	p.out = append(p.out, a)
}

// race begins the creates. The last to end wakes the prober, which then judges.
func (p *prober) race(limit time.Duration) {
	p.step, p.winners, p.exists, p.class = probeJudge, nil, 0, core.ClassOther
	for range competitors {
		nonce, err := p.nonce()
		if err == nil {
			err = p.compete(nonce, limit)
		}
		if err != nil { // nothing else can be begun either
			p.refuse(core.ReasonUnusable, core.ClassOther)
			return
		}
		p.racing++
	}
}

func (p *prober) refuse(reason core.Reason, class core.Class) {
	p.done = true
	p.out = append(p.out, core.Action{Kind: core.ActionRefused, Reason: reason, Class: cmp.Or(class, core.ClassNone)})
}

// Idle implements core.Stepper.
func (p *prober) Idle() bool { return p.done }

// String implements core.Stepper.
func (p *prober) String() string { return "probing" }

// competitor is one create of a race: a machine with one request. It is stepped, and
// tells the prober, on the loop's goroutine.
type competitor struct {
	request core.Action
	ended   func(*core.Event)
	done    bool
}

// Step implements core.Stepper.
func (r *competitor) Step(_ core.Instant, ev core.Event) ([]core.Action, error) {
	switch {
	case r.done:
	case ev.Kind == core.EventBegin:
		return []core.Action{r.request}, nil
	case ev.Kind == core.EventAnswer:
		r.done = true
		r.ended(&ev)
	}
	return nil, nil
}

// Idle implements core.Stepper.
func (r *competitor) Idle() bool { return r.done }

// String implements core.Stepper.
func (r *competitor) String() string { return "racing" }
