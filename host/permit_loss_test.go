package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// When its session dies a permit's Done closes though nobody asks, with the reason,
// however many there are; and who waits is let in on the next session.
func TestPermitLost(t *testing.T) {
	each(t, map[core.Reason]func(*actor){
		core.ReasonUnreachable: func(p *actor) { p.store.always(fault{class: core.ClassUnreachable}) },
		core.ReasonExpired:     func(p *actor) { p.clock.jump(10 * minute) },
	}, func(w *world, reason core.Reason, kill func(*actor)) {
		const many = 30
		p := w.host()
		var held []*Permit
		for range many {
			held = append(held, p.permit("n", View{many, 1}))
		}
		lease := p.sessional("l")
		waiting := make(chan *Permit)
		go func() { waiting <- p.permit("n", View{many, 1}) }()
		w.sleep(time.Second)
		begun, deadline := time.Now(), held[0].Deadline()
		kill(p)
		for _, permit := range held {
			<-permit.Done()
			w.is(context.Cause(permit.Context()), &Error{Kind: Lost, Reason: reason})
			w.is(permit.Err(), ErrLost)
		}
		w.is(lease.Err(), &Error{Kind: Lost, Reason: reason})
		if reason == core.ReasonUnreachable {
			w.same("not before it must", !time.Now().Before(deadline.Add(-time.Second)) && begun.Before(deadline), true)
		}
		w.has(held[0].Err().Error(), `mopslock: permit of "n" lost (`)
		w.is(held[0].Release(background), ErrLost)
		p.store.heal()
		last := <-waiting
		w.same("another session", last.Session() != held[0].Session(), true)
		w.ok(last.Err())
		w.sleep(5 * minute)
		w.ok(last.Err())
		p.giveBack(last)
		w.held("n", 0)
	})
}

// A caller that asks a permit past its deadline hears at once that it is lost, whatever
// the loop has had time for.
func TestPermitPastItsDeadline(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		permit := p.permit("n", six)
		p.clock.jump(10 * minute)
		w.is(permit.Err(), &Error{Kind: Lost, Reason: core.ReasonExpired})
		if left := permit.Left(); left > 0 {
			w.Errorf("left %v", left)
		}
		permit = p.permit("n", six)
		p.clock.jump(10 * minute)
		w.is(permit.Release(background), &Error{Kind: Lost, Reason: core.ReasonExpired})
	})
}

// After a pause the first thing that happens can be a caller, before anybody has
// seen that the session is dead: he is let in on the next one, or hears why not.
func TestPermitAfterAPause(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		for _, name := range []string{"n", "m"} {
			held := p.permit("n", six)
			p.clock.jump(10 * minute)
			next := p.permit(name, six)
			w.is(held.Err(), &Error{Kind: Lost, Reason: core.ReasonExpired})
			p.clock.jump(10 * minute)
			w.ok(p.SetLimit(background, name, 5))
			w.is(next.Err(), &Error{Kind: Lost, Reason: core.ReasonExpired})
		}
		p.giveBack(p.permit("n", six))
		w.sleep(time.Second)
		p.idle()
	})
}

// Who waits through a pause longer than the session goes on waiting: his machine is
// stepped by the session's end in the middle of a step of its own, and no clock goes back.
func TestPermitWaiterAfterAPause(t *testing.T) {
	bubble(t, func(w *world) {
		holder, p := w.host(), w.host()
		held := holder.permit("n", six)
		for range 5 {
			holder.permit("n", six)
		}
		let := beside(func() error {
			_, err := p.AcquirePermit(background, "n", six, &PermitOptions{Terms: permitTerms})
			return err
		})
		w.sleep(2 * time.Second)
		p.clock.tick = time.Nanosecond
		p.clock.jump(10 * minute)
		w.ok(p.SetLimit(background, "n", 6))
		holder.giveBack(held)
		w.ok(<-let)
	})
}

// A caller that gives up leaves nothing behind, at whatever moment that is.
func TestPermitGivenUp(t *testing.T) {
	for after := time.Duration(0); after <= 15*latency; after += latency / 2 {
		bubble(t, func(w *world) {
			p := w.host()
			ctx, cancel := context.WithTimeoutCause(background, after, errGivenUp)
			defer cancel()
			permit, err := p.AcquirePermit(ctx, "n", six, &PermitOptions{Terms: permitTerms})
			if err == nil {
				w.ok(permit.Release(background))
			} else {
				w.is(err, errGivenUp)
			}
			w.sleep(time.Second)
			p.idle()
			w.held("n", 0)
		})
	}
	bubble(t, func(w *world) { // and of one who waits, while others hold
		p, other := w.host(), w.host()
		held := other.permit("n", six, PermitOptions{Weight: 6})
		w.is(errOf(p.AcquirePermit(w.limited(time.Second), "n", six, nil)), context.DeadlineExceeded)
		w.sleep(time.Second)
		p.idle()
		other.giveBack(held)
		w.held("n", 0)
	})
}

var errGivenUp = errors.New("given up")

// A store that refuses for good is told at once, whatever it refuses; one that is silent,
// after five seconds. It can be used again when it is mended.
func TestPermitOfABadStore(t *testing.T) {
	each(t, map[string]fault{
		"create": {class: core.ClassReadOnly}, "put": {class: core.ClassReadOnly}, "list": {class: core.ClassReadOnly},
		"": {hang: true},
	}, func(w *world, verb string, f fault) {
		p := w.host()
		p.giveBack(p.permit("m", six)) // or else the probe fails
		p.clock.jump(10 * minute)
		w.sleep(time.Second)
		p.store.when(verb, "", f)
		begun, reason, after := time.Now(), core.ReasonUnusable, 0*time.Second
		if f.hang {
			reason, after = core.ReasonUnreachable, 5*time.Second
		}
		w.says(errOf(p.AcquirePermit(background, "n", six, nil)), &Error{Kind: NotAcquired, Reason: reason}, `permit of "n" not acquired`)
		w.within("after", time.Since(begun), after, after+time.Second)
		p.store.heal()
		w.sleep(core.RequestLimit) // for a beat that hangs
		p.giveBack(p.permit("n", six))
		p.idle()
	})
}

// An engine that fails: what is held stays good until its deadline, who waits is
// told at once, and when all that is over the name can be used again.
func TestEngineFailsPermits(t *testing.T) {
	bubble(t, func(w *world) {
		p, engine := w.fragile()
		a, b := p.permit("n", six), p.permit("n", six)
		refused := beside(func() error {
			_, err := p.AcquirePermit(background, "n", six, &PermitOptions{Terms: permitTerms, Weight: 5})
			return err
		})
		w.sleep(time.Second)
		engine.broken.Store(true)
		deadline := a.Deadline()
		w.wantEngine(<-refused, &Error{Kind: NotAcquired, Reason: core.ReasonUnusable})
		w.ok(a.Err())
		w.is(errOf(p.tryPermit("n", six)), errTrap)
		w.wantEngine(b.Release(background), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.ok(a.Err())
		p.store.forget()
		<-a.Done()
		w.same("not after its deadline", time.Now().After(deadline), false)
		w.wantEngine(a.Err(), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.same("requests", p.store.count("create", ""), 0)
		p.idle()
		engine.broken.Store(false)
		w.sleep(2 * minute)
		p.giveBack(p.permit("n", six, PermitOptions{Weight: 6}))
		p.idle()
		w.ok(p.Close(background))
		w.same("kept", engine.kept.Load(), int64(0))
	})
}

// A Host whose engine has failed can be closed. Nothing was given back then.
func TestEngineFailsPermitsClosing(t *testing.T) {
	bubble(t, func(w *world) {
		p, engine := w.fragile()
		permit := p.permit("n", six)
		engine.broken.Store(true)
		w.ok(p.Close(background))
		<-permit.Done()
		w.wantEngine(permit.Err(), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.same("kept", engine.kept.Load(), int64(0))
		w.held("n", 1)
	})
}
