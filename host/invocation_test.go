package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Step by step: nothing happens before the first Next, a Next that is given up
// changes nothing, and what is over says so again and again.
func TestInvocationSteps(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		i := p.begins("n", terms)
		w.sleep(minute)
		w.same("requests", p.store.verbs(), "")
		w.is(errOf(i.Next(w.limited(latency/2))), context.DeadlineExceeded)
		work := w.next(i)
		w.same("result", i.Result(), (*Result)(nil))
		w.same("name", work.Name(), "n")
		w.sleep(5 * minute)
		w.ok(work.Err())
		if until := time.Until(work.Deadline()); until <= 0 || until != work.Left() {
			w.Errorf("deadline in %v, left %v", until, work.Left())
		}
		work.Return(Bytes([]byte("wrong")))
		work.Return(Bytes([]byte("x")))
		work.End(nil)
		work.End(errors.New("again"))
		for range 2 {
			work, err := i.Next(background)
			w.same("over", work == nil && err == nil, true)
		}
		w.holds(i.Result(), "x")
		w.ok(i.Wait(background))
		p.idle()
		i.Cancel() // changes nothing
		_, err := i.Next(background)
		w.ok(err)
		w.is(work.Err(), ErrReleased)
	})
}

// Cancel ends it at once wherever it is, and gives back what is held.
func TestInvocationCancel(t *testing.T) {
	cancelled := &Error{Kind: NotAcquired, Reason: core.ReasonCancelled}
	eachWay(t, func(w *world, terms Terms) {
		for at := time.Duration(0); at < 15*latency; at += latency / 2 {
			p := w.host()
			i := p.begins("n", terms)
			time.AfterFunc(at, i.Cancel)
			work, err := i.Next(background)
			if err == nil {
				<-work.Context().Done()
				w.is(context.Cause(work.Context()), ErrReleased)
				work.End(errors.New("cancelled"))
				_, err = i.Next(background)
			}
			w.is(err, cancelled)
			w.ok(i.Wait(background))
			p.free("n", terms)
			w.sleep(minute)
			p.idle()
		}
	})
}

// Work that was launched again, by the next tenure, has a lease of its own.
func TestInvokeLaunchesAgain(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, other := w.host(), w.host()
		var works []*Work
		v := w.begin(func() (*Result, error) {
			return p.invoke("n", func(ctx context.Context, work *Work) error {
				works = append(works, work)
				if len(works) == 1 {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				work.Return(Bytes([]byte("second")))
				return nil
			}, terms)
		})
		w.sleep(5 * time.Second)
		other.breaks("n", &BreakOptions{Why: "test", Now: true})
		v.comesTo("second")
		w.same("launches", len(works), 2)
		w.same("holders", works[0].Holder() != works[1].Holder(), true)
		w.is(works[0].Err(), ErrLost)
		w.is(works[1].Err(), ErrReleased)
		works[0].End(nil) // too late for anything
		works[1].End(nil)
		w.sleep(5 * time.Second)
		p.idle()
	})
}

// To release a work's lease is to give the invocation up.
func TestInvocationLeaseReleased(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		i := p.begins("n", terms)
		work := w.next(i)
		p.release(work.Lease())
		w.is(errOf(i.Next(background)), &Error{Kind: NotAcquired, Reason: core.ReasonCancelled})
		w.is(work.Err(), ErrReleased)
		w.ok(i.Wait(background))
		p.idle()
	})
}

// What could not be released is told by Wait: it expires.
func TestInvocationNotReleased(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		i := p.begins("n", terms)
		_, err := i.Next(background)
		w.ok(err)
		p.store.always(fault{class: core.ClassUnreachable})
		i.Cancel()
		w.is(i.Wait(background), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		p.idle()
	})
}

// Where the engine fails nobody is stranded: work that runs is waited for, and
// its lease stays good until its deadline.
func TestInvocationEngineFails(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, engine := w.fragile()
		other := w.host()
		var cause error
		works := w.begin(func() (*Result, error) {
			return p.invoke("n", func(ctx context.Context, work *Work) error {
				w.sleep(10 * time.Second)
				w.ok(work.Err())
				<-ctx.Done()
				cause = context.Cause(ctx)
				w.sleep(minute)
				work.Return(Bytes([]byte("in vain")))
				return nil
			}, terms)
		})
		held := other.begun("m", returns("m", 10*minute), terms)
		w.sleep(time.Second)
		waits := p.begun("m", w.never, terms)
		handles := make(chan Handle, 1)
		afar := other.begun("far", starts(handles), terms)
		contact := make(chan bool, 9)
		remote := w.begin(func() (*Result, error) {
			return p.Remote(background, <-handles, returns("far", 5*minute), &RemoteOptions{OnContact: func(on bool) { contact <- on }})
		})
		w.sleep(5 * time.Second)
		engine.broken.Store(true)
		<-waits.ended
		w.wantEngine(waits.err, &Error{Kind: NotAcquired})
		<-works.ended
		w.wantEngine(works.err, ErrNoResult)
		w.is(cause, ErrLost)
		<-remote.ended
		w.wantEngine(remote.err, ErrNoResult)
		w.same("contact", <-contact, false)
		w.same("told again", len(contact), 0)
		p.idle()
		w.same("kept", engine.kept.Load(), int64(0))
		held.comesTo("m")
		<-afar.ended
		w.is(afar.err, ErrNoResult)
	})
}

// It cannot be begun without an engine, nor is a cancelled one left in it.
func TestInvocationEngineFailsEarly(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, engine := w.fragile()
		i := p.begins("n", terms)
		work := w.next(i)
		engine.broken.Store(true)
		i.Cancel()
		w.is(errOf(i.Next(background)), &Error{Kind: NotAcquired, Reason: core.ReasonCancelled})
		<-work.Context().Done()
		w.same("not released", i.Wait(background) != nil, true)
		w.is(errOf(p.invoke("m", w.never, terms)), errTrap)
		p.idle()
		w.same("kept", engine.kept.Load(), int64(0))
	})
}

// Work is refused if its session cannot begin. One that dies takes the work along; the next attempt has the next one.
func TestInvocationSessionDies(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.when("put", "", fault{class: core.ClassUnauthorized})
		w.is(errOf(p.Invoke(w.limited(minute), "n", w.never, &InvokeOptions{Terms: onSession})), &Error{Kind: NotAcquired, Reason: core.ReasonUnusable})
		p.store.heal()
		i := p.begins("n", onSession)
		work := w.next(i)
		first := work.Lease().Session()
		p.clock.jump(10 * minute)
		<-work.Context().Done()
		w.is(work.Err(), &Error{Kind: Lost, Reason: core.ReasonExpired})
		work.End(work.Err())
		w.same("the same session", w.next(i).Lease().Session() == first, false)
		i.Cancel()
		w.ok(i.Wait(background))
	})
}

// On a directory a result wakes who waits for it, and who awaits a remote's.
func TestInvocationWatches(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, a, b := w.host(), w.watching(nil), w.watching(nil)
		handles := make(chan Handle, 1)
		awaits := a.begun("n", starts(handles), terms)
		remote := w.begin(func() (*Result, error) { return p.remote(<-handles, returns("x", 9*minute)) })
		w.sleep(time.Second)
		waits := b.begun("n", w.never, terms)
		remote.comesTo("x")
		awaits.comesTo("x")
		waits.comesTo("x")
		for _, v := range []*invocation{awaits, waits} {
			w.within("woken after", v.at.Sub(remote.at), 0, 3*latency)
		}
		w.sleep(5 * time.Second)
		w.unwatched("")
	})
}
