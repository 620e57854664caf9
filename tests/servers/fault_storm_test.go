package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/host"
	"github.com/mopslock/mopslock/tests/servers/proxy"
)

// TestNoRetryStorm: while a server answers nothing but one refusal, whoever waits, holds
// or has a session asks no more often than the core's back-off allows. Each suffers each
// refusal, on one of the clouds. Afterwards a waiter goes on, while who had held says
// that it is lost.
func TestNoRetryStorm(t *testing.T) {
	refusals := []proxy.Fault{proxy.Throttled, proxy.Broken, proxy.Busy, proxy.Conflict}
	var done sync.WaitGroup
	for _, kind := range Kinds {
		server := Need(t, kind)
		w := &walks{T: t, server: server, other: openHost(t, server.Under(server.Address, "walks"))}
		for i, refusal := range refusals {
			for j, sufferer := range sufferers {
				if Kinds[(i+j)%len(Kinds)] != kind {
					continue
				}
				one := w.open(tale{name: sufferer.name}, refusal.String())
				done.Go(func() {
					defer one.proxy.Close()
					if err := one.end(sufferer.suffer(one, refusal)); err != nil {
						t.Errorf("%s: %v", one.title, err)
					}
				})
			}
		}
		defer done.Wait() // before its server ends
	}
}

var sufferers = []struct {
	name   string
	suffer func(*walk, proxy.Fault) error
}{
	{"waiter", waits},
	{"strict", holds(soon(strictly), 1)},
	{"lastwriter", holds(soon(byLast), 1)},
	{"session", holds(host.Terms{Protocol: core.ProtocolStrict, TTL: shortest, Session: true}, 50)},
}

// soon is the same with the shortest TTL, which is over the soonest.
func soon(terms host.Terms) host.Terms {
	terms.TTL = shortest
	return terms
}

// What the core's back-off comes to at the least, for a TTL of shortest: each attempt
// that fails is followed by one after 200 ms (a second, if it was throttled) x 1.5 for
// each before, at most TTL/8, less a fifth; and of a holder, no later than a quarter
// of the time to his deadline, and no sooner than 10 ms.
//
// So a waiter asks at most 10 times in 4 s, or 8 if he is throttled, and a holder 22 or
// 20 times from his renewal to his deadline, however many leases are on his session.
func triesWithin(span time.Duration, throttled, holds bool) int {
	step, n := core.PollFirst, 1
	if throttled {
		step = core.ThrottledFirst
	}
	for left := span; ; n++ {
		step = min(step, shortest/8)
		delay := step - step/5
		if holds {
			delay = max(core.RetryFloor, min(delay, left/4))
		}
		if left -= delay; left <= 0 {
			return n
		}
		step += step / 2
	}
}

func isThrottling(refusal proxy.Fault) bool {
	return refusal == proxy.Throttled || refusal == proxy.Busy
}

// TestAttempts holds the figures to what is said of them.
func TestAttempts(t *testing.T) {
	for _, c := range []struct {
		throttled, holds bool
		span             time.Duration
		want             int
	}{{false, false, waitSpan, 10}, {true, false, waitSpan, 8}, {false, true, holdSpan, 22}, {true, true, holdSpan, 20}} {
		if got := triesWithin(c.span, c.throttled, c.holds); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

const (
	waitSpan = 4 * time.Second
	// holdSpan is from the earliest renewal, after 5/6 of TTL/3, to the deadline, at
	// TTL - TTL/10.
	holdSpan = shortest - shortest/10 - shortest/3*5/6
)

// within reports more requests than there may be, or hardly any.
func within(n, most int) error {
	if n > most || n < enough {
		return fmt.Errorf("%d requests, want %d at most", n, most)
	}
	return nil
}

// enough requests show that a sufferer asks again.
const enough = 3

// waits has a waiter suffer, and then acquire.
func waits(w *walk, refusal proxy.Fault) error {
	held, err := w.other.Acquire(w.ctx, w.name, &host.AcquireOptions{Terms: strictly})
	if err != nil {
		return err
	}
	waiting := make(chan bool, 1)
	acquired := make(chan error, 1)
	go func() {
		lease, err := w.host.Acquire(w.ctx, w.name, &host.AcquireOptions{Terms: soon(strictly), OnWaiting: func(host.Status) {
			select {
			case waiting <- true:
			default:
			}
		}})
		if err == nil {
			err = lease.Release(w.ctx)
		}
		acquired <- err
	}()
	select {
	case <-waiting:
	case err := <-acquired:
		return err
	}
	refused := w.refuseAll(refusal)
	select {
	case <-time.After(waitSpan):
	case <-w.ctx.Done():
	}
	select {
	case <-refused.enough: // later on a machine that stood still
	case <-w.ctx.Done():
	}
	n, first := refused.count() // before the time that it took
	err = within(n, triesWithin(time.Since(first), isThrottling(refusal), false))
	w.proxy.Choose(nil)
	return errors.Join(err, held.Release(w.ctx), <-acquired)
}

// refusals are those that a walk has suffered.
type refusals struct {
	mu     sync.Mutex
	n      int
	first  time.Time
	enough chan struct{} // closed when there are
}

func (r *refusals) count() (n int, first time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n, r.first
}

func (w *walk) refuseAll(refusal proxy.Fault) *refusals {
	r := &refusals{enough: make(chan struct{})}
	w.proxy.Choose(func(*proxy.Request) proxy.Fault {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.n++
		switch r.n {
		case 1:
			r.first = time.Now()
		case enough:
			close(r.enough)
		}
		return refusal
	})
	return r
}

// holds has a holder of so many leases suffer until he has lost them all.
func holds(terms host.Terms, leases int) func(*walk, proxy.Fault) error {
	return func(w *walk, refusal proxy.Fault) error {
		var held []*host.Lease
		for i := range leases {
			lease, err := w.host.Acquire(w.ctx, fmt.Sprintf("%s/%d", w.name, i), &host.AcquireOptions{Terms: terms})
			if err != nil {
				return err
			}
			held = append(held, lease)
		}
		refused := w.refuseAll(refusal)
		for _, lease := range held {
			select {
			case <-lease.Done():
			case <-w.ctx.Done():
				return context.Cause(w.ctx)
			}
			if err := lease.Err(); !errors.Is(err, &host.Error{Kind: host.Lost, Reason: core.ReasonUnreachable}) {
				return fmt.Errorf("ended as %w", err)
			}
		}
		more := 0
		if terms.Protocol == core.ProtocolLastWriter {
			more = 1 // the later look
		}
		n, _ := refused.count()
		return within(n, triesWithin(holdSpan, isThrottling(refusal), true)+more)
	}
}
