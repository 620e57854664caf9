package host

import (
	"cmp"
	"context"
	"sync"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/loop"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// Invocation is one call of a piece of work, step by step: for hosts that cannot
// be called back. Its owner calls Next, launches the work that it is given, calls
// the Work's End, and calls Next again, until that returns none. It costs no
// goroutine. Its methods may be called from any goroutine.
type Invocation struct {
	loop.Numbered
	host  *Host
	name  string
	ctx   context.Context // for its values
	asked asked

	own  *tenure // a lease on the same name, under which its caller waits
	view *claim  // of the tenure at hand: a lease or a companion. The loop's own

	mu       sync.Mutex
	state    invocationState
	news     chan struct{} // closed at news; nil until somebody waits for some
	work     *Work         // the latest
	fresh    bool          // Next has not given it out
	delivery delivery
	outcome  outcome
	question telemetry.Question
}

// asked is what an invocation was begun with.
type asked struct {
	remote    bool
	handle    Handle // a remote's, without Owner
	command   core.Event
	onContact func(bool)
	onWaiting func(Status)
}

// delivery is what has become of the output of the work.
type delivery struct {
	source Source // what is delivered
	broken error  // its own fault
	own    bool   // the store took it
}

// outcome is how an invocation ends.
type outcome struct {
	result     *Result
	err        error
	ending     error   // of a remote's lease, before any work
	unreleased error   // the lease could not be given back
	seen       *Status // whom it waits for
	cancelled  bool    // by its caller
	stopped    bool    // by its caller, or by the Host's Close
	refusal    error   // why it was cancelled, if not by its caller
}

// invocationState is how far an invocation has come.
type invocationState uint8

const (
	invocationAsked invocationState = iota
	invocationBegun
	invocationDecided // there is an outcome
	invocationOver    // everything is given back
)

func (h *Host) newInvocation(ctx context.Context, name string, a asked) (*Invocation, error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case h.loop.IsClosing():
		return nil, ErrClosed
	}
	for _, key := range []string{core.ResultKey(name), core.FailureKey(name)} {
		if err := h.checkKey(key); err != nil {
			return nil, err
		}
	}
	return &Invocation{host: h, name: name, ctx: ctx, asked: a, own: h.ownOf(ctx, name)}, nil
}

// Name is what the work is leased by.
func (i *Invocation) Name() string { return i.name }

// Next returns a work to be launched now, whose End is to be called when it has
// ended; or nil and nil: it is over, and there is a Result; or how it ended
// without one, as Invoke's error. It waits until there is one of them. Where ctx
// ends first an error that wraps its cause is returned and nothing else happens: the invocation goes
// on, and so may the caller; who does not must Cancel.
func (i *Invocation) Next(ctx context.Context) (*Work, error) {
	if ctx.Err() != nil {
		return nil, i.waited(context.Cause(ctx))
	}
	i.begin()
	var work *Work
	var ended error
	err := i.await(ctx, func() bool {
		if i.state >= invocationDecided {
			ended = i.outcome.err
			return true
		}
		if i.fresh {
			work, i.fresh = i.work, false
		}
		return work != nil
	})
	if err != nil {
		err = i.waited(err)
	}
	return work, cmp.Or(err, ended)
}

// begin gives the client the command, unless that was done. A Cancel that came before it is
// given as well.
func (i *Invocation) begin() {
	i.mu.Lock()
	begins := i.state == invocationAsked
	if begins {
		i.state, i.question = invocationBegun, i.host.telemetry.Ask(telemetry.Invocation)
	}
	i.mu.Unlock()
	if !begins {
		return
	}
	i.asked.command.Body = i.host.memory.Recall(i.name)
	if err := i.host.begin(i, i.asked.command, nil); err != nil {
		i.host.loop.Do(func() { i.over(err) })
	}
	i.mu.Lock()
	cancelled := i.outcome.cancelled
	i.mu.Unlock()
	if cancelled {
		i.host.loop.Command(i, core.Event{Kind: core.EventCancel}, nil)
	}
}

// waited is what the caller of Next hears whose ctx has ended.
func (i *Invocation) waited(cause error) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return &waitError{&Error{Name: i.name, Seen: i.outcome.seen}, cause}
}

// Result is what Next found, or nil before that.
func (i *Invocation) Result() *Result {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.outcome.result
}

// Cancel gives the invocation up, unless it is decided: Next returns an *Error of
// Kind NotAcquired, Reason cancelled. The Context of a work ends, and what is held is
// given back; it does not wait for that.
func (i *Invocation) Cancel() {
	i.mu.Lock()
	i.outcome.cancelled, i.outcome.stopped = true, true
	begun := i.state != invocationAsked
	i.mu.Unlock()
	i.invalidate()
	if !begun {
		i.host.loop.Do(i.cancelUnbegun)
	}
	i.host.loop.Command(i, core.Event{Kind: core.EventCancel}, nil)
}

// cancelUnbegun ends an invocation of which the client has not heard.
func (i *Invocation) cancelUnbegun() {
	i.mu.Lock()
	begun, err := i.state != invocationAsked, i.wasCancelled()
	i.mu.Unlock()
	if !begun {
		i.over(err)
	}
}

// Wait waits until the invocation is over and everything is given back: nil, or
// the *Error of Kind Lost if the lease could not be released and was left to
// expire. Where ctx ends first its cause is returned.
func (i *Invocation) Wait(ctx context.Context) error {
	err := i.await(ctx, func() bool { return i.state == invocationOver })
	if err == nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		err = i.outcome.unreleased
	}
	return err
}

// await waits until something is true, which is asked under mu.
func (i *Invocation) await(ctx context.Context, true func() bool) error {
	for {
		i.mu.Lock()
		come := true()
		if !come && i.news == nil {
			i.news = make(chan struct{})
		}
		news := i.news
		i.mu.Unlock()
		if come {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// notify wakes the callers that wait for news. The caller holds mu and the loop's lock.
func (i *Invocation) notify() {
	if i.news != nil {
		i.host.loop.Signal(i.news)
		i.news = nil
	}
}

// answer counts that the caller has its answer. The caller holds mu and the loop's lock.
func (i *Invocation) answer(protocol core.Protocol, told string) {
	if q := i.question; q != (telemetry.Question{}) {
		i.question = telemetry.Question{}
		i.host.loop.Later(func() { q.Answer(protocol, told) })
	}
}

// decide sets the outcome, once. protocol is how the name is kept, if that is known. The
// caller holds mu and the loop's lock.
func (i *Invocation) decide(result *Result, err error, protocol core.Protocol) {
	if i.state >= invocationDecided {
		return
	}
	told := "found"
	if result == nil {
		told = outcomeOf(context.Background(), err)
	}
	i.answer(protocol, told)
	i.state, i.outcome.result, i.outcome.err = invocationDecided, result, err
	i.notify()
}

// over ends the invocation: nothing of it is left here. The caller holds the loop's lock.
func (i *Invocation) over(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if w := i.work; w != nil && w.cancel != nil {
		w.cancel(cmp.Or(i.outcome.err, err))
	}
	i.delivery.source = nil
	i.decide(nil, cmp.Or(i.outcome.ending, err), i.protocol())
	i.state = invocationOver
	i.notify()
}

func (i *Invocation) isDecided() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.state >= invocationDecided
}

func (i *Invocation) hasLaunched() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.work != nil
}

// wasCancelled is how it ended if nobody but the caller or Close has ended it.
func (i *Invocation) wasCancelled() error {
	switch o := &i.outcome; {
	case o.refusal != nil:
		return o.refusal
	case !o.cancelled:
		return ErrClosed
	}
	return &Error{Kind: NotAcquired, Name: i.name, Reason: core.ReasonCancelled}
}

// protocol is by which the name is kept, if that is known. The caller holds the loop's lock.
func (i *Invocation) protocol() core.Protocol {
	if i.view != nil {
		return i.view.protocol
	}
	return i.asked.command.Terms.Protocol
}

// about is its name, for people.
func (i *Invocation) about() string { return i.name }
