package host

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/internal/telemetry"
	"github.com/mopslock/mopslock/host/store"
)

// Client is a Host for callers that speak the messages of the core's client themselves, such as
// those in another process: their commands go in, and its notices come out. bindings/README.md
// says what each means. A Client makes the requests, keeps what is to be remembered, and logs
// what concerns no claim. Its methods may be called from any goroutine.
type Client struct {
	host   *Host
	hear   func(Notice)
	claims map[uint64]*told // by the callers' numbers; under the loop's lock
}

// Notice is what the client says of a claim, or of none.
type Notice struct {
	// Action is the notice, with the caller's number of the claim. It is valid only during the call.
	// nil says that the engine has failed: the client has gone with all claims, and what is held
	// ends at its deadline. The next command that begins a claim makes a new client.
	*core.Action
	// Last says that it is the last word on the claim.
	Last bool
	// Cause is the error of the latest request that failed for the claim, or with which the engine
	// has failed; nil if there is none.
	Cause error
	// Own, of found: a store has taken the result that this claim has delivered.
	Own bool
	// Answer is not nil if this tells of no notice, but of what a request for a claim has come to. Action is
	// then the request, and Answer the outcome and the class.
	Answer *core.Event
}

// With is what belongs to a command, beside what the client knows. The zero value is good.
type With struct {
	// Output has the output of work, with EventEnded.
	Output Source
	// Answers says that answers to the claim's requests are told as well, by a command that begins one.
	Answers bool
}

// OpenClient opens the store at a URL as Open does. hear is told every notice, in order, under a lock:
// it must neither block nor call a method of the Client.
func OpenClient(ctx context.Context, url string, opts *Options, hear func(Notice)) (*Client, error) {
	h, err := Open(ctx, url, opts)
	if err != nil {
		return nil, err
	}
	c := &Client{host: h, hear: hear, claims: map[uint64]*told{}}
	h.client = c
	return c, nil
}

// Store is the store, for what is no business of the client's. Close closes it.
func (c *Client) Store() store.Store { return c.host.verbs }

// Result is what lies at a key, to be read.
func (c *Client) Result(key string) *Result { return &Result{Key: key, host: c.host} }

// Do gives the client a command. Its Claim is the caller's number, never used before if the command
// begins a claim. The error is a *core.Error if something is wrong with the command, ErrClosed, or says that the store
// cannot keep such a name; there is no claim then. A command about a claim that has ended changes nothing.
func (c *Client) Do(ev core.Event, with With) error {
	number := ev.Claim
	if ev.Terms == nil {
		c.about(number, ev, with.Output)
		return nil
	}
	t := &told{client: c, number: number, kind: ev.Kind, ttl: ev.Terms.TTL, answers: with.Answers}
	c.host.loop.Do(func() { c.claims[number] = t })
	switch ev.Kind {
	case core.EventAcquire, core.EventPermit, core.EventInvoke, core.EventWatch:
		ev.Body = c.host.memory.Recall(ev.Terms.Name)
	}
	err := c.host.begin(t, ev, nil)
	if err != nil {
		c.host.loop.Do(func() { delete(c.claims, number) })
	}
	return err
}

// about gives a command about a claim that there is.
func (c *Client) about(number uint64, ev core.Event, source Source) {
	var t *told
	c.host.loop.Do(func() { t = c.claims[number] })
	if t == nil {
		return
	}
	if source != nil {
		t.output.Store(&source)
	}
	c.host.loop.Command(t, ev, nil)
}

// CatchUp has the client look at the clock: what that makes it say is heard before CatchUp returns.
func (c *Client) CatchUp() { c.host.loop.CatchUp() }

// Close is that of a Host.
func (c *Client) Close(ctx context.Context) error { return c.host.Close(ctx) }

// say tells a notice of no claim.
func (c *Client) say(a *core.Action, cause error) { c.hear(Notice{Action: a, Cause: cause}) }

// told is a claim of a Client's caller, who decides what it is.
type told struct {
	loop.Numbered
	client *Client
	number uint64
	kind   core.EventKind // of the command that has begun it
	ttl    core.TTL
	output atomic.Pointer[Source]
	own    bool

	answers bool
	held    telemetry.Holding
	until   int64
}

// Hear implements loop.Claim.
func (t *told) Hear(a *core.Action) (last bool) {
	said := *a
	said.Claim = t.number
	t.count(a)
	last = isLast(t.kind, a.Kind)
	t.client.hear(Notice{Action: &said, Last: last, Cause: t.Cause(), Own: t.own && a.Kind == core.ActionFound})
	if last {
		delete(t.client.claims, t.number)
	}
	return last
}

// count counts renewals: the caller hears of none whose deadline it can read.
func (t *told) count(a *core.Action) {
	switch a.Kind {
	case core.ActionHeld:
		t.held = telemetry.Holding{Kind: telemetry.Lease, Protocol: a.Protocol, TTL: t.ttl.Under(a.Protocol).Duration(), OnSession: a.On != 0}
		if t.kind == core.EventAccompany || t.kind == core.EventRemote {
			t.held.Kind = telemetry.Companion
		}
	case core.ActionRenewed:
		h := t.client.host
		held, left := t.held, time.Duration(t.until-h.clock.Now().Mono)
		h.record(func(r *telemetry.Recorder) { r.Renewed(held, left) })
	case core.ActionDeadline:
	default:
		return
	}
	t.until = a.At
}

// isLast reports whether a notice is the client's last word on a claim that a command has begun.
func isLast(of core.EventKind, said core.ActionKind) bool {
	switch said {
	case core.ActionLeft:
		return true
	case core.ActionSeen:
		return of == core.EventLook
	case core.ActionLimited, core.ActionBroken:
		return true
	case core.ActionRefused, core.ActionLost, core.ActionReleased, core.ActionCannotMaintain:
		return of != core.EventInvoke && of != core.EventRemote // which goes on, to left
	}
	return false
}

// Answered implements loop.Claim.
func (t *told) Answered(r *loop.Request, ev *core.Event, err error) {
	if loop.IsTransfer(r.Kind) && ev.Outcome == core.OutcomeYes {
		t.own = true
	}
	if ev.Outcome == core.OutcomeUnknown && r.Purpose == core.PurposeRenewal {
		t.client.host.recordRenewalFailed(t.held)
	}
	if t.answers {
		asked := r.Action
		asked.Claim = t.number
		t.client.hear(Notice{Action: &asked, Answer: ev, Cause: err})
	}
}

// Closing implements loop.Claim. The caller, who closes, knows it.
func (t *told) Closing() {}

// Left implements loop.Claim.
func (t *told) Left() { delete(t.client.claims, t.number) }

// Stranded implements loop.Claim: the caller is told by a Notice without an action.
func (t *told) Stranded(int64, core.EventKind, error) (until int64) {
	delete(t.client.claims, t.number)
	return 0
}

// source is the output of the work.
func (t *told) source() Source {
	if output := t.output.Load(); output != nil {
		return *output
	}
	return nil
}

// gone says that the engine has failed.
func (c *Client) gone(err error) {
	if err != nil {
		c.hear(Notice{Cause: &EngineError{err}})
	}
}
