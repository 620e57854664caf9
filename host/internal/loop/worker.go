package loop

import (
	"context"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Caller is one that waits for its claim: until Done is closed, or Ctx ends.
type Caller struct {
	Ctx  context.Context
	Done <-chan struct{}
}

func (c *Caller) waits() bool {
	select {
	case <-c.Done:
		return false
	default:
		return c.Ctx.Err() == nil
	}
}

// unlockBy ends a turn of a caller, which is the worker of its claim where calls end at once.
func (l *Loop) unlockBy(c Claim, by *Caller) {
	if by == nil || l.ending.over || !l.host.Prompt(core.ActionGet) {
		l.unlock()
		return
	}
	l.ending.busy++
	r, nap := l.leave(c, true)
	for r != nil && r.Claim == c && l.host.Prompt(r.Kind) || r == nil && nap > 0 && nap <= callersNap {
		if !by.waits() {
			break
		}
		r, nap = l.turn(r, nap)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r != nil || nap > 0 {
		l.spawn(func() { l.work(r, nap) })
	}
	l.rested()
}

// work makes requests, one after the other, as long as each brings the next.
func (l *Loop) work(r *Request, nap time.Duration) {
	for r != nil || nap > 0 {
		r, nap = l.turn(r, nap)
	}
}

// turn makes a request, or sleeps for a moment, and takes what has come of it.
func (l *Loop) turn(r *Request, nap time.Duration) (*Request, time.Duration) {
	if r == nil {
		l.alarm.sleep(nap)
		l.mu.Lock()
		l.alarm.naps = false
		l.passTime()
		return l.leave(nil, true)
	}
	ev, err := l.ask(r)
	l.mu.Lock()
	l.requests.end(r)
	l.answer(r, &ev, err)
	return l.leave(r.Claim, true)
}

// ask has the store do what a request says, unless it is too late for that: the process may
// have been stopped since the request has got its slot.
func (l *Loop) ask(r *Request) (core.Event, error) {
	returned := false
	defer func() {
		if r.stop(); !returned { // a driver has ended the goroutine
			l.mu.Lock()
			defer l.mu.Unlock()
			l.requests.end(r)
		}
	}()
	if r.Ctx.Err() != nil || l.clock.Now().Mono >= r.limit {
		returned = true
		return unanswered(r), ErrSilent
	}
	ev, err := l.host.Ask(r)
	returned = true
	return ev, err
}

// spawn runs something on a goroutine of its own, for which Close waits. It is called under
// the lock.
func (l *Loop) spawn(do func()) {
	l.ending.busy++
	go func() {
		defer func() { // also if a driver ends the goroutine
			l.mu.Lock()
			defer l.mu.Unlock()
			l.rested()
		}()
		do()
	}()
}

// rested takes that a goroutine has nothing more to do.
func (l *Loop) rested() {
	if l.ending.busy--; l.ending.busy == 0 && l.ending.idle != nil {
		close(l.ending.idle)
		l.ending.idle = nil
	}
}
