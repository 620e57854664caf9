package explore

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/tests/explore/check"
)

// latency is from a request to the store, and from there to the answer.
const latency = 100 * millisecond

// job is what a launch of somebody comes to.
type job struct {
	after  int64 // it ends so long after the launch
	result bool  // with bytes to be stored
	stores bool  // it has stored them itself
	// renewing: it ends as the lease is put anew, and such a put takes long.
	renewing bool
	// starts is who is started by it, so much later; "" is nobody.
	starts string
	delay  int64
}

// part is one who takes part in a play.
type part struct {
	name     string
	program  Program // nil until it is started
	job      job
	cancelAt int64 // 0 is never
	// crashAt is after how many events it crashes; never is not.
	crashAt int
	events  int
	began   int64
	wake    int64
	crashed bool
	said    core.ActionKind // found, absent or refused
	saidAt  int64
	works   int
	key     string // of what it has found
}

const never = -1

// scheduled is what happens at an instant, of those of one in the order in which
// they were scheduled.
type scheduled struct {
	at int64
	do func()
}

// play is one story with one store, in which time passes from event to event.
type play struct {
	t     *testing.T
	maker *invocationMaker
	store Store
	now   int64
	queue []scheduled
	parts []*part
	// lands: what a crashed one had sent is applied all the same.
	lands   bool
	crashes int
	comes   int64          // the next caller, so long after the last crash
	crashAt int64          // of the last one
	wanted  int            // crashes
	trail   []string       // for who reads a failure
	stepped func(*part)    // told of each Step
	states  map[string]int // in which states a crash was
}

func (p *play) at(when int64, do func()) {
	i := len(p.queue)
	for i > 0 && p.queue[i-1].at > when {
		i--
	}
	p.queue = append(p.queue, scheduled{})
	copy(p.queue[i+1:], p.queue[i:])
	p.queue[i] = scheduled{when, do}
}

func (p *play) clock() core.Instant {
	return core.Instant{Mono: strictMono + p.now, Wall: start + p.now}
}

func (p *play) part(name string) *part {
	for _, q := range p.parts {
		if q.name == name {
			return q
		}
	}
	p.t.Fatalf("%s: nobody of that name", name)
	return nil
}

// begin starts a part: who wants the result, or a remote of somebody's launch.
func (p *play) begin(q *part, of *check.Launch) {
	if q.crashAt == 0 { // it never comes to anything
		p.crash(q)
		return
	}
	cfg := p.maker.config(q.name)
	if of != nil {
		cfg.Role, cfg.Holder, cfg.Epoch = core.RoleRemote, core.HolderID(of.Tenure), of.Epoch
	}
	program, err := p.maker.start(q.name, cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	q.program, q.began, q.wake = program, p.now, noWake
	p.step(q, core.Event{Kind: core.EventBegin, Wait: core.Forever})
	if q.cancelAt != 0 {
		p.at(q.cancelAt, func() { p.step(q, core.Event{Kind: core.EventCancel}) })
	}
}

// step gives a part one event, and does what it asks for.
func (p *play) step(q *part, ev core.Event) {
	if q.crashed || ev.Kind == core.EventEnded && q.program.String() != core.InvocationLaunched.String() {
		return
	}
	if p.maker.strict() { // the process has sampled the store's clock when it began
		ev.StoreStamp, ev.StoreAt = (start+q.began)/strictUnit*strictUnit, strictMono+q.began
	}
	actions, err := stepSafely(q.program, p.clock(), ev)
	if err != nil {
		p.fail("%s: %v", q.name, err)
	}
	q.wake = noWake
	p.trail = append(p.trail, fmt.Sprintf("%6.1fs %s %s: %s", float64(p.now)/float64(second), q.name, ev.Kind, q.program))
	for i := range actions {
		a := actions[i]
		a.Body = bytes.Clone(a.Body)
		p.act(q, &a)
	}
	if p.stepped != nil {
		p.stepped(q)
	}
	if q.events++; q.events == q.crashAt {
		p.crash(q)
	}
}

func (p *play) act(q *part, a *core.Action) {
	switch {
	case a.Kind == core.ActionWake:
		q.wake = a.At
	case isRequest(a.Kind):
		way := latency
		if q.job.renewing && a.Kind == core.ActionPut && q.works > 0 {
			way *= 10
			p.at(p.now, func() { p.step(q, core.Event{Kind: core.EventEnded, Outcome: core.OutcomeYes, Result: q.job.result}) })
		}
		p.at(p.now+way, func() { p.apply(q, a) })
	case a.Kind == core.ActionLaunch:
		p.launch(q)
	case a.Kind == core.ActionFound, a.Kind == core.ActionAbsent, a.Kind == core.ActionRefused:
		q.said, q.saidAt, q.key = a.Kind, p.now, a.Key
	}
}

func (p *play) apply(q *part, a *core.Action) {
	if q.crashed && !p.lands {
		return
	}
	before := p.object()
	var reply core.Event
	p.store, reply = p.store.Apply(start+p.now, a, 0)
	if v := check.Stored(a.Key, before, p.object()); v != nil {
		p.fail("%v", v)
	}
	reply.Request = a.Request
	p.at(p.now+latency, func() { p.step(q, reply) })
}

func (p *play) object() []byte { return p.store.(Keeper).Object(resultOf(leaseName)) }

func (p *play) launch(q *part) {
	q.works++
	j := q.job
	if claims := q.program.Claims(); j.starts != "" && len(claims) > 0 {
		of := check.Launch{Actor: q.name, Tenure: claims[0].Tenure, Epoch: claims[0].Epoch}
		p.at(p.now+j.delay, func() { p.begin(p.part(j.starts), &of) })
	}
	p.at(p.now+j.after, func() {
		if j.stores && !q.crashed {
			put := core.Action{Kind: core.ActionCreate, Key: resultOf(leaseName), Body: []byte("by " + q.name)}
			p.store, _ = p.store.Apply(start+p.now, &put, 0)
		}
		p.step(q, core.Event{Kind: core.EventEnded, Outcome: core.OutcomeYes, Result: j.result})
	})
}

// crash ends a part at once; with the last crash the next caller comes.
func (p *play) crash(q *part) {
	q.crashed, q.wake = true, noWake
	state := core.InvocationIdle.String()
	if q.program != nil {
		state = q.program.String()
	}
	p.states[q.name+" "+state]++
	p.crashes++
	if p.crashes == p.wanted {
		p.crashAt = p.now
		c := p.part("C")
		p.at(p.now+p.comes, func() { p.begin(c, nil) })
	}
}

// run lets time pass until nothing is left to happen.
func (p *play) run() {
	const most = 20_000
	for range most {
		var next *part
		when := noWake
		if len(p.queue) > 0 {
			when = p.queue[0].at
		}
		for _, q := range p.parts {
			if q.wake != noWake && q.wake-strictMono < when {
				next, when = q, max(p.now, q.wake-strictMono)
			}
		}
		switch {
		case when == noWake:
			return
		case next != nil:
			p.now = when
			p.step(next, core.Event{Kind: core.EventWoke})
		default:
			do := p.queue[0].do
			p.queue = p.queue[1:]
			p.now = when
			do()
		}
	}
	p.fail("it does not come to an end")
}

func (p *play) fail(format string, args ...any) {
	p.t.Helper()
	for _, line := range p.trail[max(0, len(p.trail)-80):] {
		p.t.Log(line)
	}
	p.t.Fatalf(format, args...)
}
