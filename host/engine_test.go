package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mopslock/mopslock/core"
	"github.com/mopslock/mopslock/core/machines"
)

// fragile is an engine that fails when told to, and counts what it keeps.
type fragile struct {
	broken atomic.Bool
	kept   atomic.Int64
}

var errTrap = errors.New("wasm trap")

func (f *fragile) New(cfg core.Config) (core.Stepper, error) {
	if f.broken.Load() {
		return nil, errTrap
	}
	m, err := machines.New(cfg)
	if err != nil {
		return nil, err
	}
	f.kept.Add(1)
	return &fragileMachine{m, f}, nil
}

func (f *fragile) Drop(core.Stepper) { f.kept.Add(-1) }

type fragileMachine struct {
	core.Stepper
	engine *fragile
}

func (m *fragileMachine) Step(now core.Instant, ev core.Event) ([]core.Action, error) {
	if m.engine.broken.Load() {
		return nil, errTrap
	}
	return m.Stepper.Step(now, ev)
}

func (w *world) fragile() (*actor, *fragile) {
	engine := &fragile{}
	return w.hostWith(func(o *Options) { o.Engine = engine }), engine
}

// joined is a companion of a lease, and what it is told of its contact.
func (p *actor) joined(l *Lease) (*Companion, Handle, chan bool) {
	contact := make(chan bool, 9)
	handle := l.Handle()
	handle.Owner = ""
	c, err := p.Accompany(background, handle, &AccompanyOptions{OnContact: func(on bool) { contact <- on }})
	p.world.ok(err)
	return c, handle, contact
}

// wantEngine holds an error to its kind, reason and cause.
func (w *world) wantEngine(err error, want *Error) {
	w.Helper()
	var engine *EngineError
	w.is(err, want)
	if !errors.As(err, &engine) || !errors.Is(err, errTrap) || !strings.Contains(err.Error(), "the engine failed (wasm trap)") {
		w.Errorf("%v", err)
	}
}

// What is held stays good until its deadline, is lost then, and nothing is
// written in between; the log says at once what happened.
func TestEngineFailsHeld(t *testing.T) {
	bubble(t, func(w *world) {
		p, engine := w.fragile()
		l := p.acquire("n")
		engine.broken.Store(true)
		p.store.forget()
		deadline := l.Deadline()
		w.sleep(terms.TTL.Duration() / 2) // past the renewal that was due
		w.ok(l.Err())
		w.has(p.log.String(), "level=ERROR", errTrap.Error())
		<-l.Done()
		w.same("lost at", time.Now(), deadline)
		if left := l.Left(); left > 0 {
			w.Errorf("left %v", left)
		}
		w.wantEngine(l.Err(), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.same("requests", p.store.verbs(), "")
		p.idle()
		w.same("kept", engine.kept.Load(), int64(0))
	})
}

// A release without an engine writes nothing, and is not reported as one.
func TestEngineFailsRelease(t *testing.T) {
	bubble(t, func(w *world) {
		p, engine := w.fragile()
		l := p.acquire("n")
		handle := l.Handle()
		handle.Owner = ""
		engine.broken.Store(true)
		w.wantEngine(l.Release(background), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.state("n", core.ObservedHeld)
		w.is(p.ReleaseHandle(background, handle, nil), errTrap)
	})
}

// A waiter is told at once, or that its Host is closed. Once the engine is well again a
// new lease is acquired.
func TestEngineFailsWaiting(t *testing.T) {
	bubble(t, func(w *world) {
		holder := w.host()
		l := holder.acquire("n")
		p, engine := w.fragile()
		for _, closes := range []bool{false, true} {
			ended := beside(func() error { return errOf(p.Acquire(background, "n", &AcquireOptions{Terms: terms})) })
			w.sleep(time.Second)
			engine.broken.Store(true)
			if closes {
				w.ok(p.Close(background))
				w.is(<-ended, ErrClosed)
				break
			}
			w.wantEngine(<-ended, &Error{Kind: NotAcquired})
			w.is(errOf(p.try("n")), errTrap)
			engine.broken.Store(false)
			holder.release(l)
			l = p.acquire("n")
			p.release(l)
			p.idle()
			w.same("kept", engine.kept.Load(), int64(1)) // the client
			l = holder.acquire("n")
		}
	})
}

// A companion says once that contact is lost, be it by the engine or by the store before,
// and leaves when it is told to.
func TestEngineFailsCompanion(t *testing.T) {
	each(t, map[string]bool{"engine": false, "store": true}, func(w *world, _ string, silent bool) {
		l := w.host().acquire("n")
		p, engine := w.fragile()
		c, handle, contact := p.joined(l)
		if silent {
			p.store.always(fault{class: core.ClassUnreachable})
			w.same("contact", <-contact, false)
		}
		engine.broken.Store(true)
		if !silent {
			w.same("contact", <-contact, false)
		}
		w.sleep(10 * minute)
		w.same("told again", len(contact), 0)
		w.ok(c.Err())
		w.ok(c.Leave(background))
		w.same("kept", engine.kept.Load(), int64(0))

		engine.broken.Store(false)
		p.store.once("get", fault{hang: true})
		ended := beside(func() error { return errOf(p.Accompany(background, handle, nil)) })
		w.sleep(time.Second)
		engine.broken.Store(true)
		w.wantEngine(<-ended, &Error{Kind: NothingToJoin})
	})
}

// An engine that fails while a release is under way ends the release, and not a
// TTL later; what it says is what became of the lease.
func TestEngineFailsReleasing(t *testing.T) {
	each(t, map[string]fault{"get": {hang: true}, "put": {hang: true}}, func(w *world, verb string, f fault) {
		p, engine := w.fragile()
		l := p.acquire("n")
		p.store.once(verb, f)
		ended := beside(func() error { return l.Release(background) })
		w.sleep(time.Millisecond)
		engine.broken.Store(true)
		begun := time.Now()
		w.wantEngine(<-ended, &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		w.within("took", time.Since(begun), 0, core.RequestLimit)
		w.same("kept", engine.kept.Load(), int64(0))
	})
}

// A lease that is released stays so for its last holder, although the
// machine had meant to look once more.
func TestEngineFailsReleased(t *testing.T) {
	bubble(t, func(w *world) {
		p, engine := w.fragile()
		l := p.acquire("n")
		p.store.once("put", fault{class: core.ClassUnreachable})
		before := len(p.store.puts())
		w.until(10*time.Millisecond, func() bool { return len(p.store.puts()) > before }) // a renewal of unknown fate
		synctest.Wait()
		p.release(l)
		engine.broken.Store(true)
		w.sleep(terms.TTL.Duration())
		if log := p.log.String(); strings.Contains(log, "lease lost") {
			w.Errorf("log:\n%s", log)
		}
		p.idle()
	})
}

// A machine is given back however its caller goes, and whatever is wrong with
// what was asked.
func TestEngineDrops(t *testing.T) {
	bubble(t, func(w *world) {
		p, engine := w.fragile()
		_, err := p.Acquire(background, "n", &AcquireOptions{Wait: -time.Second})
		if err == nil {
			w.Error("a negative wait")
		}
		p.release(p.acquire("n"))
		held := p.acquire("n")
		ctx, cancel := context.WithCancel(background)
		cancel()
		w.is(errOf(p.Acquire(ctx, "m", lastWriter)), context.Canceled)
		w.same("kept", engine.kept.Load(), int64(1))
		p.store.always(fault{hang: true})
		_ = p.Close(ctx) // forced
		w.same("kept", engine.kept.Load(), int64(0))
		if held.Err() == nil {
			w.Error("held after Close")
		}
		if _, err := p.Acquire(background, "n", lastWriter); !errors.Is(err, ErrClosed) {
			w.Error(err)
		}
		w.same("kept", engine.kept.Load(), int64(0))
	})
}

// Calls of a client that is gone end by their limits, and give their slots back: the next claims of a
// Host with few of them are served.
func TestEngineFailsCallsEnd(t *testing.T) {
	bubble(t, func(w *world) {
		engine := &fragile{}
		p := w.hostWith(func(o *Options) { o.Engine, o.InFlight = engine, 2 })
		p.store.always(fault{hang: true})
		for i := range 6 {
			ended := beside(func() error { return errOf(p.try(fmt.Sprint("n", i))) })
			w.sleep(10 * time.Millisecond)
			engine.broken.Store(true)
			w.is(errOf(p.try("other")), errTrap)
			w.is(<-ended, errTrap)
			engine.broken.Store(false)
		}
		w.sleep(minute)
		w.same("under way", p.store.inFlight(), 0)
		p.store.heal()
		p.free("n", terms)
	})
}

// What was to end before the engine failed ends at once: nobody waits for what the store says.
func TestEngineFailsEnding(t *testing.T) {
	each(t, map[string]func(w *world, p *actor) (ends func() error){
		"work": func(w *world, p *actor) func() error {
			i := p.begins("n", terms)
			w.next(i)
			p.store.always(fault{hang: true})
			i.Cancel()
			return func() error { return errOf(i.Next(background)) }
		},
		"companion": func(w *world, p *actor) func() error {
			c := p.joins(w.host().strictly("n").Handle())
			p.store.when("put", "", fault{hang: true})
			w.until(10*time.Millisecond, func() bool { return p.store.inFlight() > 0 })
			return func() error { return c.Leave(background) }
		},
	}, func(w *world, _ string, begin func(w *world, p *actor) func() error) {
		p, engine := w.fragile()
		ended := beside(begin(w, p))
		synctest.Wait()
		begun := time.Now()
		engine.broken.Store(true)
		<-ended
		w.within("ended after", time.Since(begun), 0, core.RequestLimit)
		p.idle()
	})
}
