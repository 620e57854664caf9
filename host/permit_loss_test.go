package host

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// When its session dies a permit's Done closes though nobody asks, with the reason,
// however many there are; and who waits is let in on the next session.
func TestPermitLost(t *testing.T) {
	for reason, kill := range map[core.Reason]func(*party){
		core.ReasonUnreachable: func(p *party) { p.store.always(fault{class: core.ClassUnreachable}) },
		core.ReasonExpired:     func(p *party) { p.clock.jump(10 * minute) },
	} {
		t.Run(reason.String(), func(t *testing.T) {
			bubble(t, func(w *world) {
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
				if !strings.HasPrefix(held[0].Err().Error(), `mopslock: permit of "n" lost (`) {
					w.Error(held[0].Err())
				}
				w.is(held[0].Release(context.Background()), ErrLost)
				p.store.heal()
				last := <-waiting
				w.same("another session", last.Session() != held[0].Session(), true)
				w.ok(last.Err())
				w.sleep(5 * minute)
				w.ok(last.Err())
				p.giveBack(last)
				w.held("n", 0)
			})
		})
	}
}

// Whoever asks a permit past its deadline hears at once that it is lost, whatever
// the keeper has had time for.
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
		w.is(permit.Release(context.Background()), &Error{Kind: Lost, Reason: core.ReasonExpired})
	})
}

// After a pause the first thing that happens can be a caller, before anybody has
// seen that the session is dead: he is let in on the next one, or hears why not.
func TestPermitAfterAPause(t *testing.T) {
	bubble(t, func(w *world) {
		engine := &sessionless{fragile: &fragile{}}
		p := w.hostWith(func(o *Options) { o.Engine = engine })
		for _, name := range []string{"n", "m"} {
			held := p.permit("n", six)
			p.clock.jump(10 * minute)
			next := p.permit(name, six)
			w.is(held.Err(), &Error{Kind: Lost, Reason: core.ReasonExpired})
			p.clock.jump(10 * minute)
			w.ok(p.SetLimit(context.Background(), name, 5))
			w.is(next.Err(), &Error{Kind: Lost, Reason: core.ReasonExpired})
		}
		p.permit("n", six)
		p.clock.jump(10 * minute)
		engine.none.Store(true)
		_, err := p.tryPermit("n", six)
		w.wantEngine(err, &Error{Kind: Refused, Reason: core.ReasonUnusable})
		engine.none.Store(false)
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
		let := make(chan error, 1)
		go func() {
			_, err := p.AcquirePermit(context.Background(), "n", six, &PermitOptions{Terms: permitTerms})
			let <- err
		}()
		w.sleep(2 * time.Second)
		p.clock.tick = time.Nanosecond
		p.clock.jump(10 * minute)
		w.ok(p.SetLimit(context.Background(), "n", 6))
		holder.giveBack(held)
		w.ok(<-let)
	})
}

// sessionless is an engine that can be told to make no sessions.
type sessionless struct {
	*fragile
	none atomic.Bool
}

func (s *sessionless) New(cfg core.Config) (core.Stepper, error) {
	if s.none.Load() && cfg.Machine == core.MachineSession {
		return nil, errTrap
	}
	return s.fragile.New(cfg)
}

// Whoever gives up leaves nothing behind, at whatever moment that is.
func TestPermitGivenUp(t *testing.T) {
	for after := time.Duration(0); after <= 15*latency; after += latency / 2 {
		bubble(t, func(w *world) {
			p := w.host()
			ctx, cancel := context.WithTimeoutCause(context.Background(), after, errGivenUp)
			defer cancel()
			permit, err := p.AcquirePermit(ctx, "n", six, &PermitOptions{Terms: permitTerms})
			if err == nil {
				w.ok(permit.Release(context.Background()))
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
		ctx, cancel := context.WithTimeoutCause(context.Background(), time.Second, errGivenUp)
		defer cancel()
		_, err := p.AcquirePermit(ctx, "n", six, nil)
		w.is(err, errGivenUp)
		w.sleep(time.Second)
		p.idle()
		_, err = p.AcquirePermit(ctx, "n", six, nil)
		w.is(err, errGivenUp)
		other.giveBack(held)
		w.held("n", 0)
	})
}

var errGivenUp = errors.New("given up")

// A create of unknown fate is looked after: the permit is held once, or not at all,
// whether it has landed, lands late, or never does.
func TestPermitUnknownCreate(t *testing.T) {
	for what, f := range map[string]fault{
		"landed": {lost: true}, "late": {late: 3 * time.Second}, "never": {class: core.ClassUnreachable}, "hangs": {hang: true},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w *world) {
				p, other := w.host(), w.host()
				first := p.permit("n", six)
				p.store.once("create", f)
				second := p.permit("n", six)
				w.held("n", 2)
				p.store.once("create", f)
				p.giveBack(second)
				w.held("n", 1)
				_, err := other.tryPermit("n", six, PermitOptions{Weight: 6})
				w.is(err, ErrFull)
				p.store.once("create", f) // and who gives up meanwhile
				ctx, cancel := context.WithTimeoutCause(context.Background(), 2*latency, errGivenUp)
				defer cancel()
				if permit, err := p.AcquirePermit(ctx, "n", six, &PermitOptions{Terms: permitTerms}); err == nil {
					p.giveBack(permit)
				}
				p.giveBack(first)
				w.sleep(minute)
				w.held("n", 0)
				p.idle()
			})
		})
	}
}

// A store that refuses for good is told at once; one that is silent, after five seconds.
func TestPermitOfABadStore(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.always(fault{class: core.ClassUnauthorized})
		_, err := p.AcquirePermit(context.Background(), "n", six, nil)
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnusable})
		p.store.heal()
		p.giveBack(p.permit("n", six))
		for _, verb := range []string{"create", "put", "list"} {
			q := w.host()
			q.giveBack(q.permit("m", six)) // or else the probe fails
			q.clock.jump(10 * minute)
			w.sleep(time.Second)
			q.store.on(func(c call) fault {
				if c.verb == verb {
					return fault{class: core.ClassReadOnly}
				}
				return fine
			})
			_, err = q.AcquirePermit(context.Background(), "n", six, nil)
			w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnusable})
			if !strings.Contains(err.Error(), `permit of "n" not acquired`) {
				w.Error(err)
			}
			q.store.heal()
			q.giveBack(q.permit("n", six))
			q.idle()
		}
		q := w.host()
		q.store.always(fault{hang: true})
		begun := time.Now()
		_, err = q.AcquirePermit(context.Background(), "n", six, nil)
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnreachable})
		w.same("after", time.Since(begun), 5*time.Second)
	})
}

// An engine that fails: what is held stays good until its deadline, who waits is
// told at once, and when all that is over the name can be used again.
func TestEngineFailsPermits(t *testing.T) {
	bubble(t, func(w *world) {
		p, engine := w.fragile()
		a, b := p.permit("n", six), p.permit("n", six)
		refused := make(chan error)
		go func() {
			_, err := p.AcquirePermit(context.Background(), "n", six, &PermitOptions{Terms: permitTerms, Weight: 5})
			refused <- err
		}()
		w.sleep(time.Second)
		engine.broken.Store(true)
		deadline := a.Deadline()
		w.wantEngine(<-refused, &Error{Kind: Refused, Reason: core.ReasonUnusable})
		w.ok(a.Err())
		_, err := p.tryPermit("n", six)
		w.wantEngine(err, &Error{Kind: Refused, Reason: core.ReasonUnusable})
		w.wantEngine(b.Release(context.Background()), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
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
		w.ok(p.Close(context.Background()))
		w.same("kept", engine.kept.Load(), int64(0))
	})
}

// A Host whose engine has failed can be closed. Nothing was given back then.
func TestEngineFailsPermitsClosing(t *testing.T) {
	bubble(t, func(w *world) {
		p, engine := w.fragile()
		permit := p.permit("n", six)
		engine.broken.Store(true)
		w.ok(p.Close(context.Background()))
		<-permit.Done()
		w.wantEngine(permit.Err(), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.same("kept", engine.kept.Load(), int64(0))
		w.held("n", 1)
	})
}
