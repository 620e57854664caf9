package host

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host/internal/telemetry"
)

// Invocation is one call of a piece of work, step by step: for hosts that cannot
// be called back. Its owner calls Next, launches the work that it is given, calls
// the Work's End, and calls Next again, until that returns none. It costs no
// goroutine. Its methods may be called from any goroutine.
type Invocation struct {
	host *Host
	name string
	ctx  context.Context // for its values

	remote       bool
	handle       Handle // a remote's, without Owner
	withoutLease bool
	memoFailures bool
	onContact    func(bool)
	onWaiting    func(Status)

	// plan finds out how the name is kept, which asks the store; turn lets one at a
	// time do it.
	plan func(context.Context) (wanted, error)
	turn chan struct{}

	mu         sync.Mutex
	task       *task // nil before it has begun
	stopPlan   context.CancelFunc
	news       chan struct{} // closed at news; nil until somebody waits for some
	work       *Work         // the latest
	fresh      bool          // Next has not given it out
	decided    bool
	result     *Result
	err        error
	over       bool // everything is given back
	unreleased error
	cancelled  bool
	question   telemetry.Question

	// The loop's own.
	view     *task  // of the tenure at hand: a lease's or a companion's
	ending   error  // of a remote's lease, before any work
	leaseKey string // what changes when the lease that is waited for does
	source   Source // what is delivered
	broken   error  // the source's own fault
	own      bool   // the store took it
	told     bool   // somebody in this process said that there is a result
}

// Work is one attempt at a piece of work: what is to be launched now, and the
// lease that is held for it. Its methods may be called from any goroutine.
type Work struct {
	invocation *Invocation
	view       *task // the lease or the companion; nil without a lease

	// ctx is a remote's, whose work outlives most ends of its lease; who holds a
	// lease has the lease's own.
	ctx    context.Context
	cancel context.CancelCauseFunc

	// Under the invocation's mu.
	result  Source
	failure Source
	err     error
	over    bool
}

func (h *Host) newInvocation(ctx context.Context, name string, faults error) (*Invocation, error) {
	switch {
	case faults != nil:
		return nil, faults
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case h.loop.isClosed():
		return nil, ErrClosed
	}
	if err := h.checkResultKeys(name); err != nil {
		return nil, err
	}
	return &Invocation{host: h, name: name, ctx: ctx, turn: make(chan struct{}, 1)}, nil
}

// checkWork refuses the name of a mops memo's lease: the result would lie within
// the memo, where mops would take it for its own.
func checkWork(name string) error {
	if name[strings.LastIndexByte(name, '/')+1:] == "lock" {
		return badTerms("name " + Printable(name) + ": a last segment lock is a mops memo's lease, and the result would lie within the memo; use another")
	}
	return nil
}

func (h *Host) checkResultKeys(name string) error {
	for _, key := range []string{resultKey(name), failureKey(name)} {
		if err := h.checkKey(key); err != nil {
			return err
		}
	}
	return nil
}

// Name is what the work is leased by.
func (i *Invocation) Name() string { return i.name }

// Next returns a work to be launched now, whose End is to be called when it has
// ended; or nil and nil: it is over, and there is a Result; or how it ended
// without one, as Invoke's error. It waits until there is one of them. Where ctx
// ends first an error that wraps its cause is returned and nothing else happens: the invocation goes
// on, and so may the caller; who does not must Cancel.
func (i *Invocation) Next(ctx context.Context) (*Work, error) {
	if err := i.begin(ctx); err != nil {
		return nil, err
	}
	var work *Work
	var ended error
	err := i.await(ctx, func() bool {
		if i.decided {
			ended = i.err
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

// waited is what the caller of Next hears whose ctx has ended.
func (i *Invocation) waited(cause error) error {
	i.mu.Lock()
	t := i.task
	i.mu.Unlock()
	e := &Error{Name: i.name}
	if t != nil {
		t.mu.Lock()
		e.Seen = t.seen
		t.mu.Unlock()
	}
	return &waitError{e, cause}
}

// Result is what Next found, or nil before that.
func (i *Invocation) Result() *Result {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.result
}

// Cancel gives the invocation up, unless it is decided: Next returns an *Error of
// Kind NotAcquired, Reason cancelled. The Context of a work ends, and what is held is
// given back; it does not wait for that.
func (i *Invocation) Cancel() {
	i.mu.Lock()
	i.cancelled = true
	begun, stop := i.task != nil, i.stopPlan
	if !begun && !i.decided {
		i.decide(nil, i.wasCancelled())
		i.over = true
	}
	i.mu.Unlock()
	switch {
	case begun:
		i.invalidate()
		i.host.loop.post(message{to: i.task, event: core.Event{Kind: core.EventCancel}})
	case stop != nil:
		stop()
	}
}

// Wait waits until the invocation is over and everything is given back: nil, or
// the *Error of Kind Lost if the lease could not be released and was left to
// expire. Where ctx ends first its cause is returned.
func (i *Invocation) Wait(ctx context.Context) error {
	err := i.await(ctx, func() bool { return i.over })
	if err == nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		err = i.unreleased
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

// notify wakes the callers that wait for news. The caller holds mu.
func (i *Invocation) notify() {
	if i.news != nil {
		close(i.news)
		i.news = nil
	}
}

// decide sets the outcome, once. The caller holds mu.
func (i *Invocation) decide(result *Result, err error) {
	if !i.decided {
		if i.work == nil {
			i.answered(result, err)
		}
		i.decided, i.result, i.err = true, result, err
		i.notify()
	}
}

// answered counts one who is told before anything was launched. The caller holds mu.
func (i *Invocation) answered(result *Result, err error) {
	var protocol core.Protocol
	if i.task != nil {
		protocol = i.task.protocol
	}
	if result != nil {
		i.question.Answer(protocol, "found")
		return
	}
	answered(context.Background(), i.question, protocol, err)
}

func (i *Invocation) isDecided() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.decided
}

func (i *Invocation) hasLaunched() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.work != nil
}

// wasCancelled is how it ended if nobody but the caller or Close has ended it.
func (i *Invocation) wasCancelled() error {
	if !i.cancelled {
		return ErrClosed
	}
	return &Error{Kind: NotAcquired, Name: i.name, Reason: core.ReasonCancelled}
}

// begin finds out how the name is kept and starts the machine, unless that was
// done. Where ctx ends meanwhile the next one begins anew.
func (i *Invocation) begin(ctx context.Context) error {
	select {
	case i.turn <- struct{}{}:
		defer func() { <-i.turn }()
	case <-ctx.Done():
		return i.waited(context.Cause(ctx))
	}
	i.mu.Lock()
	if i.task != nil || i.decided {
		i.mu.Unlock()
		return nil
	}
	planning, stop := context.WithCancel(ctx)
	defer stop()
	i.stopPlan = stop
	if i.question == (telemetry.Question{}) {
		i.question = i.host.telemetry.Ask(telemetry.Invocation)
	}
	i.mu.Unlock()

	want, err := i.plan(planning)
	if err != nil && ctx.Err() != nil && !i.isDecided() {
		return i.waited(context.Cause(ctx))
	}
	var t *task
	if err == nil {
		t, err = i.host.newTask(i.ctx, &want.Config, core.EventRelease, nil)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopPlan = nil
	switch {
	case err != nil:
		i.decide(nil, err)
		i.over = true
		return nil
	case i.decided:
		i.host.loop.dropMachine(t)
		return nil
	}
	t.invocation, t.hears, t.looked, t.onWaiting = i, i.hear, want.looked, i.onWaiting
	if want.OnSession {
		t.session = i.host.loop.sessionFor(&want.Config)
	}
	i.task, i.plan = t, nil
	// Under mu: a Cancel must come after the first event.
	if err := i.host.loop.add(t, core.Event{Kind: core.EventBegin, Wait: want.wait}); err != nil {
		i.decide(nil, err)
		i.over = true
		i.task = nil // it has not begun: nothing can be cancelled
	}
	return nil
}

// firstWins reports whether the store keeps the first of two results by its own
// word. What of it cannot be written to try is taken for one that does not.
func (h *Host) firstWins(ctx context.Context, name string, protocol core.Protocol, wait time.Duration) (bool, error) {
	if protocol == core.ProtocolStrict || h.isOurOwn() {
		return true, nil
	}
	honoured, err := h.createIsHonoured(ctx, name, wait)
	if errors.Is(err, &Error{Kind: NotAcquired, Reason: core.ReasonUnusable}) {
		h.log.Debug("not found out whether the store honours create-if-absent", "name", name, "error", err)
		return false, nil
	}
	return honoured, err
}

// remoteFirstWins is firstWins for a remote, which tries a store that does not
// answer for a TTL, as a companion does.
func (i *Invocation) remoteFirstWins(ctx context.Context, protocol core.Protocol, ttl time.Duration) (bool, error) {
	begun := i.host.clock.Now().Mono
	for {
		wins, err := i.host.firstWins(ctx, i.name, protocol, ttl)
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Kind != NotAcquired {
			return wins, err
		}
		left := ttl - time.Duration(i.host.clock.Now().Mono-begun)
		switch {
		case left > 0:
		case i.withoutLease: // and a put, after a look, if it comes to that
			return false, nil
		default:
			return false, &Error{Kind: NothingToJoin, Name: i.name, Reason: core.ReasonUnreadable, Class: e.Class, Err: e.Err}
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(min(core.PollCap, left)):
		}
	}
}
