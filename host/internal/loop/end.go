package loop

import (
	"context"
	"slices"
	"time"

	"github.com/mopslock/mopslock/core"
)

// ending is how far a Close has come.
type ending struct {
	ctx     context.Context // of all calls
	stop    context.CancelFunc
	closing bool          // no claim begins any more
	over    bool          // no call begins any more
	hangs   bool          // calls were left behind
	forced  error         // why claims were left as they are
	busy    int           // goroutines, and callers that make requests
	idle    chan struct{} // closed when no goroutine is left; nil until somebody waits for that
	done    chan struct{} // closed when it is over
}

func newEnding() (e ending) {
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.done = make(chan struct{})
	return e
}

// tooLate is why no claim begins any more, or nil.
func (e *ending) tooLate() error {
	if e.closing {
		return ErrClosed
	}
	return nil
}

// hangGrace is what a Close whose ctx has ended gives to calls that were just cancelled.
const hangGrace = time.Second

// Close ends all claims, and returns when everything has stopped. When ctx ends, the calls
// under way are cancelled, and the claims that have not ended are left as they are: the error is ctx's
// cause then. A call that obeys no cancel is left behind a second later, which hangs says.
func (l *Loop) Close(ctx context.Context) (hangs bool, err error) {
	l.mu.Lock()
	if !l.ending.closing {
		l.ending.closing = true
		for _, c := range l.everybody() {
			c.Closing()
		}
		l.strandClosing()
		if l.client != nil {
			l.tell(core.Event{Kind: core.EventClose})
		}
	}
	l.unlock()
	select {
	case <-l.ending.done:
	case <-ctx.Done():
		l.force(context.Cause(ctx))
	}
	l.ending.stop()
	idle := l.awaitIdle(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if !idle && l.ending.forced == nil {
		l.ending.forced = context.Cause(ctx)
	}
	l.ending.hangs = !idle
	return l.ending.hangs, l.ending.forced
}

// endIfDone ends a Loop that closes, once nothing is left to be done.
func (l *Loop) endIfDone() {
	if l.ending.closing && l.client == nil && len(l.stranded.claims) == 0 {
		l.end()
	}
}

func (l *Loop) end() {
	if l.ending.over {
		return
	}
	l.ending.over = true
	l.alarm.stop()
	l.unwatchAll()
	close(l.ending.done)
}

// force ends a Loop that closes as it is.
func (l *Loop) force(why error) {
	l.mu.Lock()
	defer l.unlock()
	all := l.everybody()
	clear(l.claims)
	l.stranded = stranded{until: core.Never}
	for _, c := range all {
		c.Left()
	}
	l.host.Gone(nil)
	l.requests.clear()
	l.drop()
	l.end()
	if len(all) > 0 {
		l.ending.forced = why
	}
}

// whenIdle is closed when no goroutine is left, and nil if none is; hangs says that a call was left behind.
func (l *Loop) whenIdle() (idle <-chan struct{}, hangs bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.busy > 0 && l.ending.idle == nil {
		l.ending.idle = make(chan struct{})
	}
	return l.ending.idle, l.ending.hangs
}

// awaitIdle waits for all goroutines. Once ctx has ended it waits only as long as a call takes
// that was cancelled, and not at all for one that was left behind before: a system call on a
// dead mount obeys no context, and Close must not hang on it.
func (l *Loop) awaitIdle(ctx context.Context) (ended bool) {
	idle, hangs := l.whenIdle()
	if idle == nil || hangs {
		return idle == nil
	}
	select {
	case <-idle:
		return true
	case <-ctx.Done():
	}
	grace := time.NewTimer(hangGrace)
	defer grace.Stop()
	select {
	case <-idle:
		return true
	case <-grace.C:
		return false
	}
}

// Wait waits for the calls that a Close has left behind.
func (l *Loop) Wait() {
	if idle, _ := l.whenIdle(); idle != nil {
		<-idle
	}
}

// stranded are the claims whose engine has failed, and that have not ended.
type stranded struct {
	claims []strandedClaim
	until  int64 // Mono: the first of their ends
	err    error
}

type strandedClaim struct {
	Claim
	until int64
}

// strand takes that the engine has failed: the client is gone, and nobody renews its claims.
// Each ends at its deadline at the latest, and the next claim gets a new client (PROTOCOL C8).
func (l *Loop) strand(now int64, err error) {
	l.drop()
	l.requests.clear()
	l.unwatchAll()
	l.host.Gone(err)
	all := l.everybody()[len(l.stranded.claims):]
	clear(l.claims)
	for _, c := range all {
		command := c.numbered().end
		if l.ending.closing && command == 0 {
			command = core.EventClose
		}
		l.stranded.claims = append(l.stranded.claims, strandedClaim{c, c.Stranded(now, command, err)})
	}
	l.stranded.err = err
	l.stranded.set()
}

// set forgets those that have ended, and finds the first of the other ends.
func (s *stranded) set() {
	s.claims = slices.DeleteFunc(s.claims, func(c strandedClaim) bool { return c.until == 0 })
	s.until = core.Never
	for i := range s.claims {
		s.until = min(s.until, s.claims[i].until)
	}
}

// strandDue tells the claims whose time has come.
func (l *Loop) strandDue(now int64) {
	s := &l.stranded
	if s.until > now {
		return
	}
	for i := range s.claims {
		if c := &s.claims[i]; c.until <= now {
			l.again(c, now, 0)
		}
	}
	s.set()
}

// strandClosing tells all that the Loop closes.
func (l *Loop) strandClosing() {
	now := l.clock.Now().Mono
	for i := range l.stranded.claims {
		l.again(&l.stranded.claims[i], now, core.EventClose)
	}
	l.stranded.set()
}

// strandOne tells a claim of a command, if the claim is stranded.
func (l *Loop) strandOne(of Claim, command core.EventKind) {
	s := &l.stranded
	at := slices.IndexFunc(s.claims, func(c strandedClaim) bool { return c.Claim == of })
	if at < 0 {
		return
	}
	l.again(&s.claims[at], l.clock.Now().Mono, command)
	s.set()
}

// again tells a claim that was told before.
func (l *Loop) again(c *strandedClaim, now int64, command core.EventKind) {
	c.until = c.Stranded(now, command, l.stranded.err)
}
