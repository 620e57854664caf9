package host

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
)

// span is how long after its last good write a lease under terms is believed.
const span = 54 * time.Second

// holding is a host with a lease that was just acquired and its later look done.
func (w *world) holding() (*actor, *Lease) {
	w.Helper()
	p := w.host()
	l := p.acquire("n")
	w.sleep(2 * time.Second)
	p.store.forget()
	return p, l
}

func wantLost(w *world, l *Lease, reason core.Reason) *Error {
	w.Helper()
	err := l.Err()
	w.is(err, ErrLost, &Error{Kind: Lost, Reason: reason})
	if left := l.Left(); left > 0 {
		w.Errorf("left %v of a lease that is lost", left)
	}
	select {
	case <-l.Done():
	default:
		w.Fatal("Done is open")
	}
	w.same("cause", context.Cause(l.Context()), err)
	w.is(l.Context().Err(), context.Canceled)
	w.same("release after it", l.Release(background), err)
	e, _ := errors.AsType[*Error](err)
	return e
}

// Self-fencing: whatever the store does, and be its calls deaf to ctx as on a dead mount,
// the lease is lost at its deadline, at once, and nothing of ours is written after it.
func TestDeadline(t *testing.T) {
	each(t, map[string]fault{
		"hangs": {hang: true}, "fails": {class: core.ClassUnreachable}, "is full": {class: core.ClassFull},
		"answers late": {before: minute}, "is deaf": {deaf: make(chan struct{})},
	}, func(w *world, _ string, f fault) {
		p, l := w.holding()
		if f.deaf != nil {
			f.deaf = make(chan struct{}) // of this bubble
			w.Cleanup(func() { close(f.deaf) })
		}
		deadline := l.Deadline()
		p.store.always(f)
		<-l.Done()
		w.same("lost at", time.Now(), deadline)
		wantLost(w, l, core.ReasonUnreachable)
		p.store.heal()
		p.store.forget()
		w.sleep(10 * minute)
		w.same("requests after it", p.store.verbs(), "")
		p.idle()
		w.has(p.log.String(), `msg="lease lost" name=n reason=unreachable`)
	})
}

// A process that was paused past its deadline hears of it from whatever it asks
// first, before its loop has run, and nothing of ours is written.
func TestPaused(t *testing.T) {
	ask := map[string]func(*world, *Lease){
		"Err":     func(w *world, l *Lease) { w.is(l.Err(), ErrLost) },
		"Release": func(w *world, l *Lease) { w.is(l.Release(background), ErrLost) },
		"nothing": func(_ *world, l *Lease) { <-l.Done() },
	}
	for name, first := range ask {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				p, l := w.holding()
				w.sleep(10 * time.Second)
				p.clock.jump(10 * minute)
				first(w, l)
				wantLost(w, l, core.ReasonExpired)
				w.sleep(10 * minute)
				w.same("requests", p.store.verbs(), "")
			})
		})
	}
}

// A thief's record is found by a renewal, or by the release, which say whose it is, and
// it stands.
func TestTaken(t *testing.T) {
	each(t, map[string]bool{"renewal": false, "release": true}, func(w *world, _ string, release bool) {
		p, l := w.holding()
		w.place("n", theirs())
		before, _ := w.backend.get("n/lock.json")
		if release {
			w.is(l.Release(background), &Error{Kind: Lost, Reason: core.ReasonTaken})
			w.same("requests", p.store.verbs(), "get")
		}
		<-l.Done()
		e := wantLost(w, l, core.ReasonTaken)
		w.same("thief", e.Seen.Holder, "somebody.else")
		w.sleep(10 * minute)
		after, _ := w.backend.get("n/lock.json")
		w.same("record", string(after.Body), string(before.Body))
	})
}

// From Release on nobody may rely on the lease: the store may let others in
// long before it answers.
func TestReleaseEndsBeliefFirst(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		p.store.once("put", fault{after: 8 * time.Second})
		released := beside(func() error { return l.Release(background) })
		synctest.Wait()
		w.is(l.Err(), ErrReleased)
		<-l.Done()
		w.is(context.Cause(l.Context()), ErrReleased)
		w.sleep(time.Second)
		w.state("n", core.ObservedReleased)
		w.same("not answered yet", len(released), 0)
		w.ok(<-released)
		w.is(l.Err(), ErrReleased, &Error{Kind: Ended, Reason: core.ReasonReleased})
	})
}

// Close waits until a put of unknown fate can have landed on the release and been undone,
// and for no more, also where the lease was released before.
func TestCloseRedoesRelease(t *testing.T) {
	each(t, map[string]bool{"by Close": false, "before": true}, func(w *world, _ string, release bool) {
		p, l := w.holding()
		p.store.once("put", fault{late: 500 * time.Millisecond})
		w.until(latency/10, func() bool { return len(p.store.puts()) > 0 })
		if release {
			p.release(l)
			w.sleep(300 * time.Millisecond)
		}
		begun := time.Now()
		w.ok(p.Close(background))
		w.within("Close took", time.Since(begun), 0, 1200*time.Millisecond)
		w.state("n", core.ObservedReleased)
	})
}

// Release with a ctx that is over tells so; the Host releases all the same.
func TestReleaseContextOver(t *testing.T) {
	bubble(t, func(w *world) {
		p, l := w.holding()
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(background)
		cancel(why)
		w.is(l.Release(ctx), why)
		w.is(l.Err(), ErrReleased)
		w.sleep(time.Second)
		w.state("n", core.ObservedReleased)
		w.ok(l.Release(ctx)) // it is released by now, whatever ctx says
		p.release(l)
		w.same("requests", p.store.verbs(), "get put")
	})
}

// Blind renewals write without reading, by wish only.
func TestBlind(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		blind := Terms{Protocol: core.ProtocolLastWriter, TTL: core.TTL(minute), Renewal: core.RenewalBlind}
		l := p.hold("n", blind)
		p.store.forget()
		w.sleep(minute)
		w.ok(l.Err())
		w.same("requests", p.store.verbs(), "put put put")
		p.store.forget()
		p.release(l)
		w.same("requests", p.store.verbs(), "put")
	})
}
