package host

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mopslock/mopslock/core"
)

var six = View{Capacity: 3, Width: 2}

// permitTerms is what the tests hold permits by: the session's deadline is 54 s.
var permitTerms = Terms{TTL: minute}

func (p *party) permit(name string, v View, opts ...PermitOptions) *Permit {
	p.world.Helper()
	permit, err := p.AcquirePermit(context.Background(), name, v, permitOptions(opts))
	p.world.ok(err)
	return permit
}

func (p *party) tryPermit(name string, v View, opts ...PermitOptions) (*Permit, error) {
	return p.TryAcquirePermit(context.Background(), name, v, permitOptions(opts))
}

func permitOptions(opts []PermitOptions) *PermitOptions {
	o := PermitOptions{}
	if len(opts) > 0 {
		o = opts[0]
	}
	if o.TTL == 0 {
		o.TTL = permitTerms.TTL
	}
	return &o
}

func (p *party) giveBack(permits ...*Permit) {
	p.world.Helper()
	for _, permit := range permits {
		p.world.ok(permit.Release(context.Background()))
	}
}

// semaphore is what somebody else sees of a name.
func (w *world) semaphore(name string) Status {
	w.Helper()
	s, err := w.host().Inspect(context.Background(), name)
	w.ok(err)
	return s
}

func (w *world) held(name string, want uint64) {
	w.Helper()
	if s := w.semaphore(name); s.Held != want {
		w.Fatalf("%d held, want %d: %+v", s.Held, want, s)
	}
}

// One permit from acquire to release: what it costs, what it says, and what others
// see of it.
func TestPermit(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		first := p.permit("n", six, PermitOptions{Weight: 2, Terms: Terms{Label: "backup"}})
		w.same("a name never used", p.store.count("create", versionFile), 1)
		w.same("and a session", p.store.count("put", sessionPrefix), 1)
		w.same("total", first.Total(), uint64(2))
		w.same("weight", first.Weight(), 2)
		w.same("token", first.FencingToken(), uint64(1))
		w.same("name", first.Name(), "n")
		if left := first.Left(); left < 53*time.Second || left > 54*time.Second {
			w.Errorf("left %v", left)
		}
		w.ok(first.Err())
		p.store.forget()
		second := p.permit("n", six)
		w.same("another", p.store.work(), "create")
		w.same("total", second.Total(), uint64(3))
		w.same("ids", first.Holder() != second.Holder() && first.Holder() != "", true)
		w.same("session", first.Session() == second.Session() && first.Session() != "", true)

		s := w.semaphore("n")
		w.same("state", s.State, core.ObservedHeld)
		w.same("semaphore", s.IsSemaphore(), true)
		w.same("protocol", s.Protocol, core.ProtocolStrict)
		w.same("view", View{s.Capacity, s.Width}, six)
		w.same("held", s.Held, uint64(3))
		w.same("most", s.Most(), uint64(6))
		w.same("holders", len(s.Holders), 2)
		w.same("the first", s.Holders[0], PermitHolder{
			ID: first.Holder(), Session: first.Session(), Weight: 2, Host: p.origin.host, PID: p.origin.pid, Label: "backup",
		})
		w.same("the second", s.Holders[1].Weight, uint64(1))

		p.store.forget()
		p.giveBack(first)
		w.same("a release", p.store.work(), "create")
		p.giveBack(first) // again
		w.same("a second one", p.store.work(), "create")
		w.is(first.Err(), ErrReleased)
		<-first.Done()
		w.is(context.Cause(first.Context()), ErrReleased)
		w.ok(second.Err())
		p.giveBack(second)
		w.sleep(time.Second)
		p.idle()
		s = w.semaphore("n")
		w.same("state", s.State, core.ObservedVacant)
		w.same("held", s.Held, uint64(0))
		third := p.permit("n", six)
		w.same("token", third.FencingToken() > second.FencingToken(), true)
	})
}

// Who finds no room is told so, or waits until somebody of this process, or of
// another, gives back.
func TestPermitWaits(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		view := View{Capacity: 2, Width: 1}
		a, b := p.permit("n", view, PermitOptions{Terms: Terms{Label: "first"}}), other.permit("n", view)
		_, err := p.tryPermit("n", view)
		w.is(err, ErrFull, ErrRefused)
		e, _ := errors.AsType[*Error](err)
		w.same("held", e.Seen.Held, uint64(2))
		w.same("holders", len(e.Seen.Holders), 2)
		w.same("label", e.Seen.Holders[0].Label, "first")
		if !strings.Contains(err.Error(), `permit of "n" not acquired: full, with 2 held, by `+a.Holder()) {
			w.Error(err)
		}
		begun := time.Now()
		_, err = other.AcquirePermit(context.Background(), "n", view, &PermitOptions{Terms: permitTerms, Wait: 3 * time.Second})
		w.is(err, ErrFull)
		if took := time.Since(begun); took < 3*time.Second || took > 4*time.Second {
			w.Errorf("waited %v", took)
		}
		slow := w.host() // whose wait begins with what it asks of the store
		slow.store.on(func(c call) fault {
			if c.key == cardKey {
				return fault{after: time.Second}
			}
			return fine
		})
		begun = time.Now()
		_, err = slow.AcquirePermit(context.Background(), "n", view, &PermitOptions{Terms: permitTerms, Wait: 3 * time.Second})
		w.is(err, ErrFull)
		if took := time.Since(begun); took < 3*time.Second || took > 4*time.Second {
			w.Errorf("waited %v", took)
		}
		for _, releaser := range []*party{p, other} {
			told := make(chan Status, 1)
			got := make(chan *Permit)
			go func() {
				got <- p.permit("n", view, PermitOptions{OnWaiting: func(s Status) { told <- s }})
			}()
			w.same("told", (<-told).Held, uint64(2))
			begun = time.Now()
			if releaser == p {
				p.giveBack(a)
				a = <-got
				if took := time.Since(begun); took > 10*latency {
					w.Errorf("in one process: %v", took)
				}
				continue
			}
			other.giveBack(b)
			b = <-got
			if took := time.Since(begun); took > 7*time.Second {
				w.Errorf("from another: %v", took)
			}
		}
		p.giveBack(a, b)
		w.held("n", 0)
	})
}

// A permit weighs what it says, all or nothing, and leaves to others what it spares.
func TestPermitWeighs(t *testing.T) {
	bubble(t, func(w *world) {
		p, other := w.host(), w.host()
		heavy := p.permit("n", six, PermitOptions{Weight: 4})
		_, err := other.tryPermit("n", six, PermitOptions{Weight: 3})
		w.is(err, ErrFull)
		_, err = other.tryPermit("n", six, PermitOptions{Spare: 2})
		w.is(err, ErrFull)
		sparing, err := other.tryPermit("n", six, PermitOptions{Spare: 1})
		w.ok(err)
		last, err := other.tryPermit("n", six)
		w.ok(err)
		w.same("total", last.Total(), uint64(6))
		_, err = p.tryPermit("n", six)
		w.is(err, ErrFull)
		wider, err := p.tryPermit("n", View{Capacity: 3, Width: 3})
		w.ok(err)
		w.same("total", wider.Total(), uint64(7))
		p.giveBack(heavy, sparing, last, wider)
		w.held("n", 0)
	})
}

// A limit in the store counts for everybody, evicts nobody, and goes when it is 0.
func TestPermitLimit(t *testing.T) {
	bubble(t, func(w *world) {
		ctx := context.Background()
		p, other := w.host(), w.host()
		w.ok(p.SetLimit(ctx, "n", 1))
		w.same("it takes no session", p.store.count("put", sessionPrefix), 0)
		p.idle()
		first := other.permit("n", six)
		_, err := p.tryPermit("n", six)
		w.is(err, ErrFull)
		if !strings.Contains(err.Error(), "with 1 held and a limit of 1 in the store") {
			w.Error(err)
		}
		s := w.semaphore("n")
		w.same("limit", s.Limit, uint64(1))
		w.same("most", s.Most(), uint64(1))
		got := make(chan *Permit)
		go func() { got <- p.permit("n", six) }()
		w.sleep(time.Second)
		w.ok(p.SetLimit(ctx, "n", 2)) // by the machine that waits
		second := <-got
		w.ok(other.SetLimit(ctx, "n", 1))
		w.ok(first.Err())
		w.ok(second.Err())
		w.ok(other.SetLimit(ctx, "n", 0))
		w.same("limit", w.semaphore("n").Limit, uint64(0))
		p.giveBack(first, second, p.permit("n", six))
		w.is(p.SetLimit(ctx, "n/", 1), &core.Error{Code: core.ErrorConfig})
		w.is(p.SetLimit(ctx, "n", maxLimit+1), &core.Error{Code: core.ErrorConfig})
		p.store.always(fault{class: core.ClassUnauthorized})
		err = p.SetLimit(ctx, "n", 1)
		w.is(err, &Error{Kind: Refused, Reason: core.ReasonUnusable})
		if !strings.HasPrefix(err.Error(), `mopslock: limit of "n" not set: `) {
			w.Error(err)
		}
	})
}

// What is wrong is said before any request, all of it.
func TestPermitArguments(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		for _, test := range []struct {
			name string
			view View
			opts PermitOptions
			want []string
		}{
			{
				"a//b",
				View{0, core.MaxWidth + 1},
				PermitOptions{Terms: Terms{Protocol: core.ProtocolLastWriter, TTL: 1, Label: "\x1b"}, Weight: -1, Spare: -1, Wait: -1},
				[]string{"name", "capacity 0", "width 65537", "protocol", "ttl 1ns", "label", "weight -1", "spare -1", "wait -1ns"},
			},
			{"n", View{core.MaxCapacity + 1, 0}, PermitOptions{Terms: Terms{TTL: core.None}}, []string{"capacity 1048577", "width 0", "ttl"}},
			{"n", View{math.MinInt, math.MaxInt}, PermitOptions{}, []string{"capacity -", "width 9"}},
		} {
			_, err := p.AcquirePermit(context.Background(), test.name, test.view, &test.opts)
			w.is(err, &core.Error{Code: core.ErrorConfig})
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					w.Errorf("%q lacks %q", err, want)
				}
			}
		}
		for _, opts := range []*PermitOptions{
			{Weight: 7}, {Weight: 6, Spare: 1}, {Spare: 6}, {Weight: math.MaxInt}, {Spare: math.MaxInt, Weight: math.MaxInt},
		} {
			_, err := p.TryAcquirePermit(context.Background(), "n", six, opts)
			w.is(err, ErrTooHeavy, &core.Error{Code: core.ErrorConfig})
		}
		_, err := p.AcquirePermit(context.Background(), "n", View{core.MaxCapacity, core.MaxWidth}, &PermitOptions{Weight: math.MaxUint32 + 1})
		w.is(err, &core.Error{Code: core.ErrorConfig})
		if errors.Is(err, ErrTooHeavy) || !strings.HasSuffix(err.Error(), "at most 4294967295") {
			w.Error(err)
		}
		w.same("requests", p.store.verbs(), "")
		p.idle()
	})
}

// A store without create-if-absent has no semaphores.
func TestPermitNeedsCreate(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		p.store.overwrites = true
		_, err := p.tryPermit("n", six)
		w.is(err, ErrUnfit)
		w.is(p.SetLimit(context.Background(), "n", 1), ErrUnfit)
		if !strings.Contains(err.Error(), `permit of "n" cannot be served: the store does not honour create-if-absent`) {
			w.Error(err)
		}
		p.idle()
	})
}

// A name is a lease's or a semaphore's. The error says which, and what to do.
func TestPermitKind(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		l, permit := p.strictly("lease"), p.permit("semaphore", six)
		for _, wait := range []time.Duration{0, core.Forever} {
			_, err := p.acquirePermit(context.Background(), "lease", six, &PermitOptions{Terms: permitTerms}, wait)
			w.is(err, &Error{Kind: Unfit, Reason: core.ReasonKind})
			if !strings.Contains(err.Error(), "that of a lease") {
				w.Error(err)
			}
			_, err = p.acquire2("semaphore", wait)
			w.is(err, &Error{Kind: Unfit, Reason: core.ReasonKind})
			if !strings.Contains(err.Error(), "that of a semaphore") {
				w.Error(err)
			}
		}
		w.is(p.SetLimit(context.Background(), "lease", 1), &Error{Kind: Unfit, Reason: core.ReasonKind})
		_, err := p.Break(context.Background(), "semaphore", &BreakOptions{Why: "stuck"})
		w.is(err, &Error{Kind: Unfit, Reason: core.ReasonKind})
		_, err = p.Accompany(context.Background(), Handle{Name: "semaphore", Protocol: core.ProtocolStrict, Holder: "h", Epoch: 1, TTL: minute}, nil)
		w.is(err, &Error{Kind: Unfit, Reason: core.ReasonKind})
		w.ok(l.Err())
		w.ok(permit.Err())
		p.release(l)
		p.giveBack(permit)
		p.idle()
	})
}

func (p *party) acquire2(name string, wait time.Duration) (*Lease, error) {
	return p.Host.acquire(context.Background(), name, &AcquireOptions{Terms: strict}, wait)
}

// A hundred who wait in one process are let in by one write, and what they give
// back at the same time goes by two: the first is not made to wait for the others.
func TestPermitGroupCommit(t *testing.T) {
	bubble(t, func(w *world) {
		const waiters = 100
		p := w.host()
		all := make([]*Permit, waiters)
		p.giveBack(p.permit("other", six))
		before := goroutines()
		p.store.forget()
		together := func(do func(i int)) {
			var group sync.WaitGroup
			for i := range waiters {
				group.Go(func() { do(i) })
			}
			group.Wait()
		}
		together(func(i int) { all[i] = p.permit("n", View{waiters, 1}) })
		w.same("creates to let them in", p.store.count("create", versionFile), 1)
		w.same("looks", p.store.count("list", "n/"), 1)
		for _, permit := range all {
			w.same("total", permit.Total(), uint64(waiters))
		}
		w.same("goroutines", goroutines(), before)
		p.store.forget()
		together(func(i int) { p.giveBack(all[i]) })
		w.same("creates to give back", p.store.count("create", versionFile), 2)
		w.held("n", 0)
		p.idle()

		// And where they queue for one place after the other's.
		p.store.forget()
		holder := w.host().permit("n", View{waiters, 1}, PermitOptions{Weight: waiters})
		waiting := make(chan Status, waiters)
		var group sync.WaitGroup
		for i := range waiters {
			group.Go(func() {
				all[i] = p.permit("n", View{waiters, 1}, PermitOptions{OnWaiting: func(s Status) { waiting <- s }})
			})
		}
		for range waiters {
			<-waiting
		}
		w.ok(holder.Release(context.Background()))
		group.Wait()
		w.same("creates", p.store.count("create", versionFile), 1)
	})
}

// A process has at most so many claims on a name; more are refused, not queued.
func TestPermitCrowded(t *testing.T) {
	bubble(t, func(w *world) {
		p := w.host()
		var full, crowded atomic.Int32
		permits := make([]*Permit, core.MaxAsked)
		var group sync.WaitGroup
		for i := range core.MaxAsked + 10 {
			group.Go(func() {
				permit, err := p.tryPermit("n", View{2 * core.MaxAsked, 1}, PermitOptions{Terms: Terms{Label: fmt.Sprintf("waiter %d", i)}})
				switch {
				case errors.Is(err, ErrCrowded):
					crowded.Add(1)
				case err != nil:
					w.Error(err)
				default:
					permits[full.Add(1)-1] = permit
				}
			})
		}
		group.Wait()
		n := int(full.Load())
		w.same("all are answered", n+int(crowded.Load()), core.MaxAsked+10)
		if n < 500 || crowded.Load() < 10 {
			w.Errorf("%d let in, %d crowded", n, crowded.Load())
		}
		w.held("n", uint64(n))
		_, err := w.host().tryPermit("n", View{2 * core.MaxAsked, 1})
		if n < core.MaxAsked {
			w.is(err, ErrCrowded)
		}
		for _, permit := range permits[:n] {
			group.Go(func() { p.giveBack(permit) })
		}
		group.Wait()
	})
}

// A try that comes while a look is under way, one that was begun before, is not told
// full by it: what was given back before the try is there for it.
//
//	others' release                ── yes
//	this look   ── list ·········· ········ as of before that
//	the try                            ── full? looks for itself
func TestTryPermitDuringALook(t *testing.T) {
	slow := fault{before: time.Millisecond, after: 2 * time.Second}
	t.Run("of one who gave up", func(t *testing.T) {
		bubble(t, func(w *world) {
			holder, p := w.host(), w.host()
			one := View{Capacity: 1, Width: 1}
			held := holder.permit("n", one)
			_, err := p.tryPermit("n", one)
			w.is(err, ErrFull)
			p.store.once("list", slow)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			_, err = p.TryAcquirePermit(ctx, "n", one, &PermitOptions{Terms: permitTerms})
			w.is(err, context.DeadlineExceeded)
			w.same("looks under way", p.store.inFlight(), 1)
			holder.giveBack(held)
			permit, err := p.tryPermit("n", one)
			w.ok(err)
			p.giveBack(permit)
		})
	})
	t.Run("of a waiter", func(t *testing.T) {
		bubble(t, func(w *world) {
			holder, p := w.host(), w.host()
			two := View{Capacity: 2, Width: 1}
			held, other := holder.permit("n", two), holder.permit("n", two)
			waiting := make(chan Status, 1)
			ended := make(chan *Permit, 1)
			go func() {
				ended <- p.permit("n", two, PermitOptions{Weight: 2, OnWaiting: func(s Status) { waiting <- s }})
			}()
			<-waiting
			w.sleep(time.Second) // a sample of the store's clock is not what is meant
			p.store.forget()
			p.store.always(slow)
			w.until(10*time.Millisecond, func() bool { return p.store.verbs() == "exists" })
			p.store.heal()
			holder.giveBack(held)
			permit, err := p.tryPermit("n", two)
			w.ok(err)
			holder.giveBack(other)
			p.giveBack(permit)
			p.giveBack(<-ended)
		})
	})
}
