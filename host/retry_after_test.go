package host

import (
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// A store that asks to be left alone is: by the request that it refused, which would
// be sent again after 200 ms, and by everybody else.
func TestLeftAlone(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		held := p.acquire("held")
		const wish = 2 * time.Second
		p.store.forget()
		p.store.once("get", fault{class: core.ClassThrottled, wish: wish})
		asked := time.Now()
		other := p.acquire("other")
		calls := p.store.log()
		for i, c := range calls[1:] {
			if quiet := c.at.Sub(asked); quiet < wish {
				w.Fatalf("request %d, %s %s, %v after the wish", i+1, c.verb, c.key, quiet)
			}
		}
		if first := calls[1].at.Sub(asked); first != wish {
			w.Fatalf("the next request is sent %v after the wish", first)
		}
		w.ok(held.Err())
		w.ok(other.Err())
	})
}

// A wish does not cost a lease: a renewal is sent at half of its limit, whatever the
// store asked for, and so is a release.
func TestLeftAloneWithinTheDeadline(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		lease := p.acquire("n")
		calls := 0
		p.store.on(func(call) fault {
			if calls++; calls%3 == 1 {
				return fault{class: core.ClassThrottled, wish: time.Minute}
			}
			return fine
		})
		w.sleep(20 * span)
		w.ok(lease.Err())
		w.ok(lease.Release(background))
	})
}

// A request that was left waiting is sent once, also while those of others come and go.
func TestLeftAloneSendsOnce(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.holdMany(9, terms)
		sent := map[string]time.Time{}
		p.store.on(func(c call) fault {
			w.within("from one to the next", c.at.Sub(sent[c.verb+c.key]), time.Second, time.Duration(core.Never))
			if sent[c.verb+c.key] = c.at; len(sent) == 1 {
				return fault{class: core.ClassThrottled, wish: time.Minute}
			}
			return fault{before: time.Second}
		})
		w.sleep(time.Minute)
	})
}

// Who lets go meanwhile is not asked for any more, and Close does not wait for the end
// of it.
func TestClosedWhileLeftAlone(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.always(fault{class: core.ClassThrottled, wish: time.Minute})
		ended := beside(func() error { return errOf(p.Acquire(background, "n", &AcquireOptions{Terms: terms})) })
		w.sleep(time.Second)
		before := len(p.store.log())
		begun := time.Now()
		w.ok(p.Close(background))
		if <-ended == nil {
			w.Fatal("acquired")
		}
		if n := len(p.store.log()) - before; n != 0 || time.Since(begun) > time.Second {
			w.Fatalf("%d requests, closed in %v", n, time.Since(begun))
		}
	})
}

// A driver that asks for less than nothing is heard as one that asks for nothing.
func TestLeftAloneForLessThanNothing(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.once("get", fault{class: core.ClassThrottled, wish: -time.Second})
		p.free("n", terms)
	})
}
