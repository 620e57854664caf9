package host

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

// Step by step: nothing happens before the first Next, a Next that is given up
// changes nothing, and what is over says so again and again.
func TestInvocationSteps(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		i, err := p.BeginInvoke(background, "n", &InvokeOptions{Terms: terms})
		w.ok(err)
		w.sleep(minute)
		w.same("requests", p.store.verbs(), "")
		given, cancel := context.WithTimeout(background, latency/2)
		defer cancel()
		_, err = i.Next(given)
		w.is(err, context.DeadlineExceeded)
		work, err := i.Next(background)
		w.ok(err)
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
		_, err = i.Next(background)
		w.ok(err)
		w.is(work.Err(), ErrReleased)
	})
}

// Cancel ends it at once wherever it is, and gives back what is held.
func TestInvocationCancel(t *testing.T) {
	cancelled := &Error{Kind: Refused, Reason: core.ReasonCancelled}
	eachWay(t, func(w *world, terms Terms) {
		for at := time.Duration(0); at < 15*latency; at += latency / 2 {
			p := w.host()
			i, err := p.BeginInvoke(background, "n", &InvokeOptions{Terms: terms})
			w.ok(err)
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
			l, err := p.TryAcquire(background, "n", &AcquireOptions{Terms: terms})
			w.ok(err)
			p.release(l)
			w.sleep(minute)
			p.idle()
		}
	})
}

// To release a work's lease is to give the invocation up.
func TestInvocationLeaseReleased(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		i, err := p.BeginInvoke(background, "n", &InvokeOptions{Terms: terms})
		w.ok(err)
		work, err := i.Next(background)
		w.ok(err)
		p.release(work.Lease())
		_, err = i.Next(background)
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonCancelled})
		w.is(work.Err(), ErrReleased)
		w.ok(i.Wait(background))
		p.idle()
	})
}

// What could not be released is told by Wait: it expires.
func TestInvocationNotReleased(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p := w.host()
		i, err := p.BeginInvoke(background, "n", &InvokeOptions{Terms: terms})
		w.ok(err)
		_, err = i.Next(background)
		w.ok(err)
		p.store.always(fault{class: core.ClassUnreachable})
		i.Cancel()
		w.is(i.Wait(background), &Error{Kind: Lost, Reason: core.ReasonUnreachable})
		p.idle()
	})
}

// On a session it is one heartbeat for all works, opened by the first claim and
// not by a look for a result.
func TestInvocationSession(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		w.shelf.put("there/result", []byte("x"))
		r, err := p.invoke("there", w.never, onSession)
		w.ok(err)
		w.holds(r, "x")
		w.same("beats", p.store.count("put", sessionPrefix), 0)
		var stands string
		first := w.begin(func() (*Result, error) {
			return p.invoke("n", func(ctx context.Context, work *Work) error {
				stands = work.Lease().Session()
				return returns("first", 10*minute)(ctx, work)
			}, onSession)
		})
		w.sleep(time.Second)
		second := w.begin(func() (*Result, error) { return p.invoke("m", returns("second", 10*minute), onSession) })
		waits := w.begin(func() (*Result, error) { return p.invoke("n", w.never, onSession) })
		first.comesTo("first")
		second.comesTo("second")
		waits.comesTo("first")
		w.same("stands on one", stands != "", true)
		w.same("beats of works", p.store.count("put", "/b."), 0)
		if n := p.store.count("put", sessionPrefix); n < 30 || n > 40 {
			w.Errorf("%d beats", n)
		}
		w.sleep(time.Second)
		for _, name := range []string{"n", "m"} { // all of it was given back
			l, err := p.tryStrictly(name)
			w.ok(err)
			p.release(l)
		}
	})
}

// A session that dies takes the work along; the next attempt has the next one.
func TestInvocationSessionDies(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		var sessions []string
		v := w.begin(func() (*Result, error) {
			return p.invoke("n", func(ctx context.Context, work *Work) error {
				sessions = append(sessions, work.Lease().Session())
				if len(sessions) == 1 {
					<-ctx.Done()
					w.is(context.Cause(ctx), &Error{Kind: Lost, Reason: core.ReasonExpired})
					return context.Cause(ctx)
				}
				work.Return(Bytes([]byte("at last")))
				return nil
			}, onSession)
		})
		w.sleep(time.Second)
		p.clock.jump(10 * minute)
		v.comesTo("at last")
		w.same("sessions", len(sessions) == 2 && sessions[0] != sessions[1] && sessions[1] != "", true)
	})
}

// Whoever breaks the name calls the session, and the work's ctx ends.
func TestInvocationSessionCalled(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		var cause error
		v := w.begin(func() (*Result, error) {
			return p.invoke("n", func(ctx context.Context, work *Work) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return cause
			}, onSession)
		})
		w.sleep(time.Second)
		_, err := other.Break(background, "n", &BreakOptions{Why: "stuck"})
		w.ok(err)
		r, err := other.invoke("n", returns("taken over", 0), strict)
		w.ok(err)
		w.holds(r, "taken over")
		v.comesTo("taken over")
		w.is(cause, &Error{Kind: Lost, Reason: core.ReasonBroken})
	})
}

// A session that cannot be had refuses who needs it, and nobody else.
func TestInvocationSessionCannotBeat(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.on(func(c call) fault {
			if c.verb == "put" {
				return fault{class: core.ClassUnauthorized}
			}
			return fine
		})
		_, err := p.invoke("n", w.never, onSession)
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnusable})
		w.shelf.put("m/result", []byte("x"))
		_, err = p.invoke("m", w.never, onSession)
		w.ok(err)
		p.store.heal()
		_, err = p.invoke("n", returns("x", 0), onSession)
		w.ok(err)
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
		held := w.begin(func() (*Result, error) { return other.invoke("m", returns("m", 10*minute), terms) })
		w.sleep(time.Second)
		waits := w.begin(func() (*Result, error) { return p.invoke("m", w.never, terms) })
		handles := make(chan Handle, 1)
		afar := w.begin(func() (*Result, error) { return other.invoke("far", starts(handles), terms) })
		contact := make(chan bool, 9)
		remote := w.begin(func() (*Result, error) {
			return p.Remote(background, <-handles, returns("far", 5*minute), &RemoteOptions{OnContact: func(on bool) { contact <- on }})
		})
		w.sleep(5 * time.Second)
		engine.broken.Store(true)
		<-waits.ended
		w.wantEngine(waits.err, &Error{Kind: Refused})
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
		i, err := p.BeginInvoke(background, "n", &InvokeOptions{Terms: terms})
		w.ok(err)
		work, err := i.Next(background)
		w.ok(err)
		engine.broken.Store(true)
		i.Cancel()
		_, err = i.Next(background)
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonCancelled})
		<-work.Context().Done()
		w.same("not released", i.Wait(background) != nil, true)
		_, err = p.invoke("m", w.never, terms)
		if _, ok := errors.AsType[*EngineError](err); !ok {
			w.Error(err)
		}
		p.idle()
		w.same("kept", engine.kept.Load(), int64(0))
	})
}

// On a directory a result wakes who waits for it, and who awaits a remote's.
func TestInvocationWatches(t *testing.T) {
	eachWay(t, func(w *world, terms Terms) {
		p, a, b := w.host(), w.watching(nil), w.watching(nil)
		handles := make(chan Handle, 1)
		awaits := w.begin(func() (*Result, error) { return a.invoke("n", starts(handles), terms) })
		remote := w.begin(func() (*Result, error) { return p.remote(<-handles, returns("x", 9*minute)) })
		w.sleep(time.Second)
		waits := w.begin(func() (*Result, error) { return b.invoke("n", w.never, terms) })
		remote.comesTo("x")
		awaits.comesTo("x")
		waits.comesTo("x")
		for _, v := range []*invocation{awaits, waits} {
			if late := v.at.Sub(remote.at); late > 3*latency {
				w.Errorf("woken after %v", late)
			}
		}
		w.sleep(5 * time.Second)
		w.shelf.mu.Lock()
		defer w.shelf.mu.Unlock()
		for key, watchers := range w.shelf.watchers {
			if len(watchers) > 0 {
				w.Errorf("%s is still watched", key)
			}
		}
	})
}

// Whatever callers do, in whatever order and at whatever moment, no machine is
// told what has no meaning to it (the keeper would panic), nobody hangs, and
// nothing is left.
func TestInvocationAnyOrder(t *testing.T) {
	for seed := range uint64(fewer(150)) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			bubble(t, func(w *world) { invocationsInAnyOrder(w, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

func invocationsInAnyOrder(w *world, random *rand.Rand) {
	var mu sync.Mutex
	chance := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	pause := func() { <-time.After(time.Duration(chance(40)) * time.Duration(1+chance(1000)) * time.Millisecond) }
	terms := []Terms{strict, onSession, ways["lastwriter"]}[chance(3)]
	terms.TTL = 10 * time.Second
	before := goroutines()
	hosts := []*party{w.watching(nil), w.host(), w.host()}
	for _, p := range hosts {
		faults := []fault{
			fine, fine, fine, fine, fine,
			{class: core.ClassUnreachable},
			{before: latency, lost: true},
			{late: 2 * time.Second},
			{hang: true},
			{before: 3 * time.Second},
		}
		p.store.on(func(call) fault { return faults[chance(len(faults))] })
	}
	handles := make(chan Handle, 1000)
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			for range 5 {
				pause()
				p := hosts[chance(len(hosts))]
				name := strconv.Itoa(chance(2))
				var i *Invocation
				var err error
				select {
				case handle := <-handles:
					i, err = p.BeginRemote(background, handle.Name, handle, &RemoteOptions{WithoutLease: chance(2) == 0, MemoFailures: chance(2) == 0})
				default:
					opts := &InvokeOptions{Terms: terms, Wait: time.Duration(chance(2)*chance(60)) * time.Second, MemoFailures: chance(2) == 0}
					opts.Try = opts.Wait == 0 && chance(3) == 0
					i, err = p.BeginInvoke(background, name, opts)
				}
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						w.Error(err)
					}
					continue
				}
				anyWork(w, i, chance, pause, handles)
				if chance(4) == 0 {
					w.shelf.remove(name + "/result")
				}
				if chance(10) == 0 {
					ctx, cancel := context.WithTimeout(background, minute)
					_, _ = p.Break(ctx, name, &BreakOptions{Why: "any", Now: chance(2) == 0})
					cancel()
				}
			}
		})
	}
	if chance(2) == 0 {
		<-time.After(time.Duration(chance(100)) * time.Second)
	} else {
		all.Wait()
	}
	for _, p := range hosts {
		ctx, cancel := context.WithTimeout(background, time.Duration(chance(20_000))*time.Millisecond)
		_ = p.Close(ctx)
		cancel()
	}
	all.Wait()
	w.sleep(minute)                          // late puts
	if now := goroutines(); now > before+1 { // the host beside the watching one
		w.Errorf("%d goroutines, %d before", now, before)
	}
}

// anyWork does what Next says, or does not, until it is over.
func anyWork(w *world, i *Invocation, chance func(int) int, pause func(), handles chan<- Handle) {
	for {
		ctx, cancel := context.WithTimeout(background, time.Duration(1+chance(100))*time.Second)
		work, err := i.Next(ctx)
		over := ctx.Err()
		cancel()
		switch {
		case work == nil && over == nil:
			if (err == nil) == (i.Result() == nil) {
				w.Errorf("result %v, error %v", i.Result(), err)
			}
			if chance(2) == 0 {
				_ = i.Wait(background)
			}
			return
		case work == nil && chance(3) == 0:
			i.Cancel()
		case work == nil:
		case chance(4) == 0:
			if handle := work.Handle(); handle.Holder != "" {
				handles <- handle
			}
			work.End(nil)
		default:
			pause()
			_ = work.Err()
			switch chance(8) {
			case 0:
				i.Cancel()
			case 1:
				if l := work.Lease(); l != nil {
					_ = l.Release(background)
				}
			case 2:
				work.Fail(Bytes([]byte("f")))
				work.End(errors.New("failed"))
			}
			if chance(2) == 0 {
				work.Return(Bytes([]byte(strings.Repeat("r", chance(100)))))
			}
			work.End(nil)
		}
	}
}

// A result that is kept while a crowd of one process waits wakes each once.
func TestInvocationWokenOnce(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		first := w.begin(func() (*Result, error) { return p.invoke("n", returns("x", minute), strict) })
		w.sleep(time.Second)
		var all []*invocation
		for range 10 {
			all = append(all, w.begin(func() (*Result, error) { return p.invoke("n", w.never, strict) }))
		}
		first.comesTo("x")
		for _, v := range all {
			v.comesTo("x")
		}
		w.sleep(minute)
		looks, stored := 0, false
		for _, c := range p.store.log() {
			stored = stored || c.verb == "create" && c.key == "n/result"
			if stored && c.verb == "exists" && c.key == "n/result" {
				looks++
			}
		}
		if looks > len(all)+1 { // one may have been under way
			w.Errorf("%d looks for %d", looks, len(all))
		}
	})
}
