package loop

import (
	"context"
	"time"

	"github.com/mopslock/mopslock/core"
)

// ringEach bounds how long the timer sleeps while anything is to be done. Go's timers do not
// count the time for which the machine slept, and deadlines do.
const ringEach = int64(time.Second)

// longestNap is the longest pause for which a timer's millisecond is worth a sleep that ends
// on time. The wait of lastwriter between a put and its verification is twice what a request
// or two take.
const longestNap = int64(10 * time.Millisecond)

// callersNap is the longest that a caller sleeps itself. The moment may be another claim's, and the
// caller's own may be settled meanwhile.
const callersNap = time.Millisecond

// alarm is the one timer.
type alarm struct {
	timer *time.Timer
	at    int64               // Mono: when it rings
	sleep func(time.Duration) // nil: by the timer alone
	naps  bool                // a worker sleeps until the client is due
}

// set has the timer ring when something is due, or before. It returns for how long a worker
// is to sleep, if the client waits for a moment only.
func (t *alarm) set(l *Loop, now int64) (nap time.Duration) {
	if pause := l.wake - now; t.sleep != nil && !t.naps && pause > 0 && pause <= longestNap {
		t.naps, nap = true, time.Duration(pause)
	}
	due := min(l.wake, l.requests.until, l.stranded.until)
	if due == core.Never || due >= t.at {
		return nap // it may ring too early, and is set again then
	}
	t.at = min(due, now+ringEach)
	pause := time.Duration(max(0, t.at-now))
	if t.timer == nil {
		t.timer = time.AfterFunc(pause, func() { l.ring() })
	} else {
		t.timer.Reset(pause)
	}
	return nap
}

// ring is the timer's.
func (l *Loop) ring() {
	l.mu.Lock()
	defer l.unlock()
	l.alarm.at = core.Never
	if !l.ending.over {
		l.passTime()
	}
}

// stop ends the timer.
func (t *alarm) stop() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// queue is what is to be run after a turn, in order.
type queue struct {
	queue   []func()
	running bool
}

// Later has do run without the lock, after all that was to be run before. It is called under
// the lock.
func (l *Loop) Later(do func()) { l.later.queue = append(l.later.queue, do) }

// Signal closes a channel, after all that is to be run before. It is called under the lock.
func (l *Loop) Signal(done chan struct{}) {
	if l.later.running || len(l.later.queue) > 0 {
		l.Later(func() { close(done) })
		return
	}
	close(done)
}

// run has a goroutine of its own run the queue: a callback that blocks delays other
// callbacks and the callers that wait for their claims, but no renewal and no deadline.
func (q *queue) run(l *Loop) {
	if q.running || len(q.queue) == 0 {
		return
	}
	q.running = true
	l.spawn(func() {
		for {
			l.mu.Lock()
			batch := q.queue
			q.queue = nil
			q.running = len(batch) > 0
			l.mu.Unlock()
			if len(batch) == 0 {
				return
			}
			for _, do := range batch {
				do()
			}
		}
	})
}

// After is the time so long from now, by the clock of callers' timers.
func After(d time.Duration) time.Time { return time.Now().Add(d) }

// Within is ctx for so long at most.
func Within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// AfterFunc calls f on a goroutine of its own, so long from now.
func AfterFunc(d time.Duration, f func()) *time.Timer { return time.AfterFunc(d, f) }
