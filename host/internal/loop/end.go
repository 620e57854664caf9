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
	done    chan struct{} // closed when it is over
}

func newEnding() (e ending) {
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.done = make(chan struct{})
	return e
}

// hangGrace is what a Close whose ctx has ended gives to calls that were just cancelled.
const hangGrace = time.Second

// Close ends all claims, and returns when everything has stopped. When ctx ends, the calls
// under way are cancelled, and the claims that have not ended are left as they are. A call
// that obeys no cancel is left behind a second later. left says that there were such
// claims, and hangs that there is such a call.
func (l *Loop) Close(ctx context.Context) (left, hangs bool) {
	l.mu.Lock()
	if !l.ending.closing {
		l.ending.closing = true
		for _, c := range l.everybody() {
			c.Closing()
		}
		for _, c := range slices.Clone(l.stranded.claims) {
			l.strandOne(c.Claim, core.EventClose)
		}
		if l.client != nil {
			l.tell(core.Event{Kind: core.EventClose})
		}
	}
	l.unlock()
	select {
	case <-l.ending.done:
	case <-ctx.Done():
		left = l.force()
	}
	l.ending.stop()
	return left, !l.awaitIO(ctx)
}

// isLeft reports whether a Close has left calls behind, for which no other waits.
func (l *Loop) isLeft() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ending.hangs
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

// force ends a Loop that closes as it is. It reports whether a claim had not ended.
func (l *Loop) force() (left bool) {
	l.mu.Lock()
	defer l.unlock()
	all := l.everybody()
	clear(l.claims)
	l.stranded = stranded{until: core.Never}
	for _, c := range all {
		c.Left()
	}
	l.requests.clear()
	l.drop()
	l.end()
	return len(all) > 0
}

// awaitIO waits for all goroutines. Once ctx has ended it waits only as long as a call takes
// that was cancelled: a system call on a dead mount obeys no context, and Close must not
// hang on it.
func (l *Loop) awaitIO(ctx context.Context) (ended bool) {
	if l.isLeft() {
		return false
	}
	all := make(chan struct{})
	go func() {
		l.io.Wait()
		close(all)
	}()
	select {
	case <-all:
		return true
	case <-ctx.Done():
	}
	grace := time.NewTimer(hangGrace)
	defer grace.Stop()
	select {
	case <-all:
		return true
	case <-grace.C:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending.hangs = true
	return false
}

// Wait waits for the calls that a Close has left behind.
func (l *Loop) Wait() { l.io.Wait() }

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
	l.host.Stranded(err)
	all := l.everybody()[len(l.stranded.claims):]
	clear(l.claims)
	command := core.EventKind(0)
	if l.ending.closing {
		command = core.EventClose
	}
	for _, c := range all {
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
