// Package loop is the engine room of a Host: it steps the core's client, has its requests
// made, and tells the claims what the client says of them. It knows the numbers of claims,
// and nothing of leases.
//
// There is one lock. All that has news takes it: a caller with a command, a worker with a
// store's answer, the timer. Under the lock the clocks are read and the client is stepped
// until it has no more to say. Claims hear their notices there, in the order of the actions,
// and before any request of the same step begins: a context is cancelled before the release
// that it stands for goes out. No I/O, no callback of a user and no store is called under
// the lock.
//
//	caller   lock ── clocks, step, notices ── unlock . . . . . waits for its claim
//	worker                              └► get ── lock, step, unlock ── put ── …
//
// A worker goes on with the next request of the claim whose answer it has brought. So a
// claim that nobody contends for changes goroutines twice, however many requests it takes.
// Where calls end at once (Host.Prompt) it changes goroutines not once: its caller is the
// worker until the claim is settled or has to wait, and hands over what is left when its
// context has ended. Elsewhere no caller makes a request: a store on a dead mount obeys no
// context, and its caller could not return.
//
// What it does not do: it decides nothing that the client can decide, and retries nothing.
package loop

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/store"
)

// Engine makes the client, as the Engine of package host does.
type Engine interface {
	New(cfg core.Config) (core.Stepper, error)
	Drop(machine core.Stepper)
}

// Clock tells the two times that the core works with.
type Clock interface{ Now() core.Instant }

// Claim is what the client has a number for. Its methods are called under the lock, and must
// neither block nor call methods of the Loop, but for Later and Signal.
type Claim interface {
	// Hear takes a notice. It returns true at the client's last word on the claim.
	Hear(a *core.Action) (last bool)
	// Answered takes what a request for the claim has come to.
	Answered(r *Request, ev *core.Event, err error)
	// Closing says that the Loop closes: the claim may not be relied on from now on.
	Closing()
	// Left says that a forced Close gives the claim up as it is.
	Left()
	// Stranded says that the engine has failed, and that the client is gone with all that it
	// knew. command is what was to end the claim, or 0. It is called again at the Mono that it
	// returns, and at each command for the claim. It returns 0 when the claim has ended.
	Stranded(now int64, command core.EventKind, err error) (until int64)

	numbered() *Numbered
}

// Numbered is embedded in each Claim. It is its number, why the latest request for it has failed, and
// the command that ends it, once that was given.
type Numbered struct {
	number uint64
	cause  error
	end    core.EventKind
}

func (t *Numbered) numbered() *Numbered { return t }

// Cause is why the latest request for the claim that failed has failed, or nil. It is to be
// read under the lock.
func (t *Numbered) Cause() error { return t.cause }

// Fail sets the cause.
func (t *Numbered) Fail(err error) { t.cause = err }

// Host makes the requests, and hears what is said of no claim.
type Host interface {
	// Config is that of a new client, with a fresh seed.
	Config() (core.Config, error)
	// Ask has the store do what a request says, and waits for the answer. The error is the
	// store's, if the outcome is unknown.
	Ask(r *Request) (core.Event, error)
	// Watch has the store tell of changes of a key. ok is false if nothing is watched.
	Watch(key string, changed func()) (stop func(), ok bool)
	// Prompt reports whether calls for such a request end at once, whatever happens: they wait for
	// no network and no disk.
	Prompt(verb core.ActionKind) bool
	// Keep keeps a body under a name for the next process. nil forgets it.
	Keep(name string, body []byte)

	// Under the lock, as the methods of a Claim:

	// Say takes a notice of no claim.
	Say(a *core.Action)
	// Answered takes what a request has come to, for a claim or for none, before its Claim
	// does. err is why the outcome is unknown, unless nobody wants to know it.
	Answered(r *Request, ev *core.Event, err error)
	// Gone says that the client is, with its sessions: the engine has failed, or with nil a Close
	// was forced.
	Gone(err error)
}

// Options are for New.
type Options struct {
	Host   Host
	Engine Engine
	Clock  Clock
	Sleep  func(time.Duration) // for a moment, which ends on time; nil: by timers alone
	// Slots is how many calls of the store may be under way at once, and Transfers how many
	// more of these may carry a result. A call that hangs keeps its slot, so there must be more of
	// them than the client uses.
	Slots, Transfers int
}

// Loop steps one client. Its methods may be called from any goroutine.
type Loop struct {
	host   Host
	engine Engine
	clock  Clock

	mu       sync.Mutex
	client   core.Stepper // nil before the first claim, after the end, and if the engine has failed
	last     uint64       // the number of the newest claim
	claims   map[uint64]Claim
	stranded stranded
	wake     int64 // Mono: when the client is to be woken
	requests requests
	watches  map[string]*watching
	later    queue // callbacks of users, and what must not be seen before they were called
	files    queue // what is kept for the next process
	alarm    alarm
	ending   ending
}

// ErrClosed is returned for a claim that comes too late.
var ErrClosed = errors.New("the loop is closed")

// New makes a Loop. It has no goroutine while there is nothing to do.
func New(o Options) *Loop {
	return &Loop{
		host: o.Host, engine: o.Engine, clock: o.Clock, claims: map[uint64]Claim{}, wake: core.Never,
		stranded: stranded{until: core.Never}, requests: newRequests(o.Slots, o.Transfers),
		watches: map[string]*watching{}, alarm: alarm{sleep: o.Sleep, at: core.Never}, ending: newEnding(),
	}
}

// Begin gives the client the command that begins a claim. The error is a *core.Error if
// something is wrong with the command, ErrClosed, or that of an engine which makes no
// client. There is no claim then. A caller that waits for the claim may make its requests;
// nil is none.
func (l *Loop) Begin(c Claim, ev core.Event, by *Caller) error {
	err := l.open()
	defer l.unlockBy(c, by)
	if err != nil {
		return err
	}
	l.last++
	ev.Claim, c.numbered().number = l.last, l.last
	l.claims[ev.Claim] = c
	if err = l.step(ev); err != nil {
		delete(l.claims, ev.Claim)
	}
	return err
}

// Command gives the client a command about a claim. It changes nothing for one that has
// ended. What Later runs may call it. by is as Begin has it.
func (l *Loop) Command(c Claim, ev core.Event, by *Caller) {
	l.mu.Lock()
	defer l.unlockBy(c, by)
	t := c.numbered()
	if ev.Claim = t.number; ev.Kind != core.EventEnded {
		t.end = ev.Kind
	}
	if l.claims[ev.Claim] == c {
		l.tell(ev)
	}
	l.strandOne(c, ev.Kind) // also if the engine has just failed
}

// CatchUp steps the client if that is due: after a pause of the process it knows no more than
// its callers do.
func (l *Loop) CatchUp() {
	l.mu.Lock()
	defer l.unlock()
	l.passTime()
}

// Cause is why the latest request that failed has failed, or nil; shared is that of the latest for
// what claims share. They are to be read under the lock.
func (l *Loop) Cause() (cause, shared error) { return l.requests.cause, l.requests.shared }

// Do runs what a claim hears of itself under the lock.
func (l *Loop) Do(do func()) {
	l.mu.Lock()
	defer l.unlock()
	do()
}

// IsClosing reports whether Close has begun.
func (l *Loop) IsClosing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ending.closing
}

// Claims is how many claims have not ended.
func (l *Loop) Claims() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.claims) + len(l.stranded.claims)
}

// open takes the lock, and makes the client if there is none. For its Config the store may be
// asked, so that is made without the lock.
func (l *Loop) open() error {
	l.mu.Lock()
	if l.client != nil || l.ending.closing {
		return l.ending.tooLate()
	}
	l.mu.Unlock()
	cfg, err := l.host.Config()
	l.mu.Lock()
	switch {
	case l.client != nil || l.ending.closing:
		return l.ending.tooLate()
	case err != nil:
		return err
	}
	client, err := l.engine.New(cfg)
	if err == nil {
		l.client = client
	}
	return err
}

// tell gives the client an event that it cannot refuse.
func (l *Loop) tell(ev core.Event) {
	if err := l.step(ev); err != nil {
		panic("mopslock: internal: loop: " + err.Error()) // the host broke the contract
	}
}

// step gives the client an event, and steps it until it has no more to say. The error is a
// *core.Error, and then nothing has changed. If the engine fails the claims are stranded.
func (l *Loop) step(ev core.Event) error {
	for more := true; more && l.client != nil; ev = (core.Event{Kind: core.EventWoke}) {
		now := l.clock.Now()
		actions, err := l.client.Step(now, ev)
		if _, refused := errors.AsType[*core.Error](err); refused {
			return err
		}
		if err != nil {
			l.strand(now.Mono, err)
			return nil
		}
		l.wake, more = core.Never, false
		closed := false
		for i := range actions {
			switch a := &actions[i]; {
			case a.Kind.IsRequest():
				l.requests.add(l.claims[a.Claim], a, now.Mono)
			case a.Kind == core.ActionWake:
				l.wake = a.At
			case a.Kind == core.ActionMore:
				more = true
			case a.Kind == core.ActionClosed:
				closed = true
			default:
				l.act(a, now.Mono)
			}
		}
		if closed { // not before its last action was read
			l.drop()
		}
	}
	return nil
}

// act does what the client asks of its host, or tells what it says to whom it concerns.
func (l *Loop) act(a *core.Action, now int64) {
	switch a.Kind {
	case core.ActionAbandon:
		l.requests.abandon(a.Request, now)
	case core.ActionWatch:
		l.watch(a.Key)
	case core.ActionUnwatch:
		l.unwatch(a.Key)
	case core.ActionRemember, core.ActionForget:
		name, body := a.Key, bytes.Clone(a.Body)
		l.files.queue = append(l.files.queue, func() { l.host.Keep(name, body) })
	default:
		if a.Claim == 0 {
			l.host.Say(a)
		} else if c := l.claims[a.Claim]; c != nil && c.Hear(a) {
			delete(l.claims, a.Claim)
		}
	}
}

// drop gives the client back to its engine.
func (l *Loop) drop() {
	if l.client != nil {
		l.engine.Drop(l.client)
	}
	l.client, l.wake = nil, core.Never
}

// passTime takes what is due: requests whose limit has passed, the client's wake, and the
// ends of claims that are stranded.
func (l *Loop) passTime() {
	now := l.clock.Now().Mono
	for _, r := range l.requests.overdue(now) {
		l.giveUp(r, ErrSilent)
	}
	if l.wake <= now {
		l.tell(core.Event{Kind: core.EventWoke})
	}
	l.strandDue(now)
}

// answer gives the client what a request has come to, once.
func (l *Loop) answer(r *Request, ev *core.Event, err error) {
	if !l.requests.take(r) {
		return
	}
	if r.abandoned {
		err = nil
	} else if ev.Outcome == core.OutcomeUnknown {
		l.requests.cause = err
		if r.Claim != nil {
			r.Claim.numbered().cause = err
		} else if r.Action.Claim == 0 {
			l.requests.shared = err
		}
	}
	l.host.Answered(r, ev, err)
	if r.Claim != nil {
		r.Claim.Answered(r, ev, err)
	}
	l.tell(*ev)
}

// giveUp answers a request for the store. why is told, unless nobody wants to know it.
func (l *Loop) giveUp(r *Request, why error) {
	r.late.Store(!r.abandoned)
	r.stop()
	ev := unanswered(r)
	l.answer(r, &ev, store.Fail(r.Kind.String(), r.Key, ev.Class, why))
}

// GiveUp answers a request for the store, because nothing of it moves any more.
func (l *Loop) GiveUp(r *Request, why error) {
	l.mu.Lock()
	defer l.unlock()
	l.giveUp(r, why)
}

// unlock ends a turn of who is no worker.
func (l *Loop) unlock() {
	l.leave(nil, false)
}

// leave ends a turn: it answers what was abandoned, begins requests, sets the timer and
// unlocks. A worker gets the request to go on with, preferably of the claim that it was about, or
// else the moment for which it sleeps before it takes the next turn.
func (l *Loop) leave(about Claim, works bool) (next *Request, nap time.Duration) {
	for r := l.requests.nextAbandoned(); r != nil; r = l.requests.nextAbandoned() {
		l.giveUp(r, ErrSilent)
	}
	if !l.ending.over {
		now := l.clock.Now().Mono
		next = l.begin(about, works, now)
		if nap = l.alarm.set(l, now); nap > 0 && (!works || next != nil) {
			moment := nap
			l.spawn(func() { l.work(nil, moment) })
			nap = 0 // for the worker
		}
	}
	l.later.run(l)
	l.files.run(l)
	l.endIfDone()
	l.mu.Unlock()
	return next, nap
}

// begin begins the requests for which there are slots. One of them is left to the worker.
func (l *Loop) begin(about Claim, works bool, now int64) (next *Request) {
	for _, r := range l.requests.begin(l.ending.ctx, now) {
		switch {
		case works && next == nil:
			next = r
			continue
		case works && r.Claim == about && next.Claim != about:
			next, r = r, next
		}
		l.spawn(func() { l.work(r, 0) })
	}
	return next
}

// everybody lists the claims that have not ended, in the order in which they came.
func (l *Loop) everybody() []Claim {
	all := make([]Claim, 0, len(l.claims)+len(l.stranded.claims))
	for i := range l.stranded.claims {
		all = append(all, l.stranded.claims[i].Claim)
	}
	for _, number := range slices.Sorted(maps.Keys(l.claims)) {
		all = append(all, l.claims[number])
	}
	return all
}
